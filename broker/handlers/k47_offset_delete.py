"""OffsetDelete, key 47, version 0.

Deletes committed offsets of a consumer group in topics that its members are not subscribed to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_delete_request import OffsetDeleteRequest
from stuntbroker.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from stuntbroker.protocol.topic_names import TopicPartition

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests, HasTopics

    class Uses(HasGroups, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY = 47
VERSIONS = range(1)


def handle(request: Asking[Uses], body: OffsetDeleteRequest, version: int) -> OffsetDeleteResponse | None:
    """Delete committed offsets of a group; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: OffsetDeleteRequest) -> Steps[OffsetDeleteResponse]:
    places: list[TopicPartition] = []
    answered: list[OffsetDeleteResponsePartition] = []
    topics = []
    for requested in body.topics:
        topic = request.broker.topics.get(requested.name)
        count = 0 if topic is None else len(topic.partitions)
        partitions = []
        for partition in requested.partitions:
            yield ELEMENT_COST
            answer = OffsetDeleteResponsePartition(partition.partition_index)
            partitions.append(answer)
            if 0 <= partition.partition_index < count:
                places.append((requested.name, partition.partition_index))
                answered.append(answer)
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partitions:
            topics.append(OffsetDeleteResponseTopic(requested.name, partitions))
    error, errors = request.broker.groups.delete_offsets(body.group_id, places)
    if error != ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=error)
    for answer, code in zip(answered, errors, strict=True):
        answer.error_code = code
    return OffsetDeleteResponse(topics=topics)
