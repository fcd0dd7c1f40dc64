"""OffsetForLeaderEpoch, key 23, versions 2-4: where a leader epoch ended (KIP-101, KIP-320).

v3 replica id. v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.epochs import epoch_error
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from stuntbroker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from stuntbroker.storage.leader_epochs import end_of_epoch

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTopics

    class Uses(HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 23
VERSIONS = range(2, 5)


def handle(
    request: Asking[Uses], body: OffsetForLeaderEpochRequest, version: int
) -> OffsetForLeaderEpochResponse | None:
    """Return the end offset of a leader epoch of each partition; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: OffsetForLeaderEpochRequest) -> Steps[OffsetForLeaderEpochResponse]:
    topics = request.broker.topics
    results = []
    for topic in body.topics:
        yield ELEMENT_COST
        partitions = []
        for part in topic.partitions:
            yield ELEMENT_COST
            log = topics.log(topic.topic, part.partition)
            if log is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                error = epoch_error(part.current_leader_epoch, log.leader_epoch)
            answer = EpochEndOffset(error, part.partition)
            if log is not None and not error:
                log.assign_offsets()
                answer.leader_epoch, answer.end_offset = end_of_epoch(
                    log.leader_epochs, part.leader_epoch, log.log_start_offset, log.next_offset
                )
            partitions.append(answer)
        results.append(OffsetForLeaderTopicResult(topic.topic, partitions))
    return OffsetForLeaderEpochResponse(topics=results)
