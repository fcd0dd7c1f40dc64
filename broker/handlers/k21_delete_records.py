"""DeleteRecords, key 21, versions 0-2: moves the start of a partition's log. v2 flexible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.topics import INTERNAL
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_records_request import DeleteRecordsRequest
from stuntbroker.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 21
VERSIONS = range(0, 3)
HIGH_WATERMARK: Final = -1


def handle(connection: Connection, request: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse:
    broker = connection.broker
    results, moved = [], False
    for topic in request.topics:
        partitions = []
        for part in {part.partition_index: part for part in topic.partitions}.values():
            log = broker.topics.log(topic.name, part.partition_index)
            answer = DeleteRecordsPartitionResult(part.partition_index, -1, ErrorCode.NONE)
            partitions.append(answer)
            if log is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in INTERNAL:
                answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif not log.config.delete:
                answer.error_code = ErrorCode.POLICY_VIOLATION
            else:
                offset = log.next_offset if part.offset == HIGH_WATERMARK else part.offset
                if not 0 <= offset <= log.next_offset:
                    answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                    continue
                moved |= offset > log.log_start_offset
                log.delete_records(offset)
                answer.low_watermark = log.log_start_offset
        if partitions:
            results.append(DeleteRecordsTopicResult(topic.name, partitions))
    if moved:
        broker.data_dir.write_start_offsets()
    return DeleteRecordsResponse(topics=results)
