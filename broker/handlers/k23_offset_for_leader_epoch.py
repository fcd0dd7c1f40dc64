"""OffsetForLeaderEpoch, key 23, versions 2-4: where a leader epoch ends. There is one epoch, and it has not ended.

v3 replica id. v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from stuntbroker.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from stuntbroker.storage.log_config import LEADER_EPOCH

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 23
VERSIONS = range(2, 5)


def handle(connection: Connection, request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
    """Return where the only leader epoch of each partition ends."""
    topics = connection.broker.topics
    results = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            log = topics.log(topic.topic, part.partition)
            if log is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif part.current_leader_epoch > LEADER_EPOCH:
                error = ErrorCode.UNKNOWN_LEADER_EPOCH
            else:
                error = ErrorCode.NONE
            answer = EpochEndOffset(error, part.partition)
            if log is not None and not error and part.leader_epoch == LEADER_EPOCH:
                if log.records:
                    log.settle()
                answer.leader_epoch, answer.end_offset = LEADER_EPOCH, log.next_offset
            elif log is not None and not error and part.leader_epoch < -1:  # Before the first one there was.
                answer.leader_epoch, answer.end_offset = part.leader_epoch, log.log_start_offset
            partitions.append(answer)
        results.append(OffsetForLeaderTopicResult(topic.topic, partitions))
    return OffsetForLeaderEpochResponse(topics=results)
