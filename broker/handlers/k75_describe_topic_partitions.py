"""DescribeTopicPartitions, key 75, version 0: topics and partitions page by page, in order of their names (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.handlers.k03_metadata import TOPIC_OPERATIONS
from stuntbroker.broker.topics import INTERNAL
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from stuntbroker.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from stuntbroker.storage.partition import LEADER_EPOCH

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 75
VERSIONS = range(0, 1)
LIMIT_MAX: Final = 2_000
"""`max.request.partition.size.limit` of Kafka."""


def handle(
    connection: Connection, request: DescribeTopicPartitionsRequest, version: int
) -> DescribeTopicPartitionsResponse:
    broker = connection.broker
    names = sorted({topic.name for topic in request.topics} or set(broker.topics.by_name))
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = request.cursor.partition_index
    left = min(request.response_partition_limit, LIMIT_MAX)
    answered = []
    for name in names:
        topic = broker.topics.get(name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answered.append(DescribeTopicPartitionsResponseTopic(error, name, bytes(16), name in INTERNAL))
            continue
        if left <= 0:
            return DescribeTopicPartitionsResponse(topics=answered, next_cursor=Cursor(name, 0))
        stop = min(len(topic.partitions), first + left)
        replicas = [broker.node_id]
        partitions = [
            DescribeTopicPartitionsResponsePartition(
                ErrorCode.NONE, index, broker.node_id, LEADER_EPOCH, replicas, replicas, [], [], []
            )
            for index in range(first, stop)
        ]
        answered.append(
            DescribeTopicPartitionsResponseTopic(
                ErrorCode.NONE, name, topic.id, topic.internal, partitions, TOPIC_OPERATIONS
            )
        )
        left -= stop - first
        if stop < len(topic.partitions):
            return DescribeTopicPartitionsResponse(topics=answered, next_cursor=Cursor(name, stop))
        first = 0
    return DescribeTopicPartitionsResponse(topics=answered)
