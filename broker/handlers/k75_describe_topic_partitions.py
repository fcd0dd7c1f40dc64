"""DescribeTopicPartitions, key 75, version 0: topics and partitions page by page, in order of their names (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.requested_topics import topics_to_describe
from stuntbroker.broker.metadata.unknown_topics import unknown_or_invalid
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.acls import EVERYTHING_ON, OPERATIONS_NOT_REQUESTED, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from stuntbroker.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from stuntbroker.protocol.topic_names import INTERNAL

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasNodes, HasTopics

    class Uses(HasLongRequests, HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 75
VERSIONS = range(0, 1)
LIMIT_MAX: Final = 2_000
"""`max.request.partition.size.limit` of Kafka."""


def handle(
    request: Asking[Uses], body: DescribeTopicPartitionsRequest, version: int
) -> DescribeTopicPartitionsResponse | None:
    """Describe the partitions of topics, from a cursor on; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: DescribeTopicPartitionsRequest) -> Steps[DescribeTopicPartitionsResponse]:
    broker = request.broker
    stopped = broker.nodes.stopped
    requested = [topic.name for topic in body.topics]
    names = topics_to_describe(body, broker.topics)
    if names is None:
        return _refused(requested, ErrorCode.INVALID_REQUEST)
    cursor = body.cursor
    first = cursor.partition_index if cursor is not None and names[:1] == [cursor.topic_name] else 0
    # Looked up once, so a topic that is deleted between two slices is still described.
    topics = {name: broker.topics.get(name) for name in names}
    left = max(1, min(body.response_partition_limit, LIMIT_MAX))
    answered: list[DescribeTopicPartitionsResponseTopic] = []
    for name, topic in topics.items():
        yield ELEMENT_COST
        if left <= 0:
            return DescribeTopicPartitionsResponse(topics=answered, next_cursor=Cursor(name, 0))
        if topic is None:
            if not name:
                return _refused(requested, ErrorCode.UNKNOWN_SERVER_ERROR)
            answered.append(_answer(unknown_or_invalid(name), name, EVERYTHING_ON[Resource.TOPIC]))
            first = 0
            continue
        first = min(first, len(topic.partitions))
        stop = min(len(topic.partitions), first + left)
        partitions = [
            DescribeTopicPartitionsResponsePartition(
                ErrorCode.NONE,
                log.index,
                place.leader,
                log.leader_epoch,
                place.replicas,
                place.in_sync,
                [],
                [],
                stopped(place),
            )
            for log, place in zip(topic.partitions[first:stop], topic.placements[first:stop], strict=True)
        ]
        answered.append(
            DescribeTopicPartitionsResponseTopic(
                ErrorCode.NONE, name, topic.id, topic.is_internal, partitions, EVERYTHING_ON[Resource.TOPIC]
            )
        )
        left -= len(partitions)
        yield ELEMENT_COST * len(partitions)
        if stop < len(topic.partitions):
            return DescribeTopicPartitionsResponse(topics=answered, next_cursor=Cursor(name, stop))
        first = 0
    return DescribeTopicPartitionsResponse(topics=answered)


def _refused(names: list[str], error: ErrorCode) -> DescribeTopicPartitionsResponse:
    """Return one error for all topics: the cursor is invalid, or a topic has no name."""
    return DescribeTopicPartitionsResponse(topics=[_answer(error, name, OPERATIONS_NOT_REQUESTED) for name in names])


def _answer(error: ErrorCode, name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error, name, bytes(16), name in INTERNAL, [], operations)
