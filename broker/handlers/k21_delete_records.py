"""DeleteRecords, key 21, versions 0-2: moves the start of a partition's log. v2 flexible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.repeated_topics import partitions_by_topic
from stuntbroker.broker.requests.slices import ELEMENT_COST, PARTITION_CHANGE_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_records_request import DeleteRecordsRequest, DeleteRecordsTopic
from stuntbroker.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from stuntbroker.protocol.topic_names import INTERNAL
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasDataDir, HasEvents, HasLongRequests, HasTopics

    class Uses(HasDataDir, HasEvents, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 21
VERSIONS = range(0, 3)
HIGH_WATERMARK: Final = -1


def handle(request: Asking[Uses], body: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse | None:
    """Move the log starts of partitions; None when the response comes later."""
    return run_in_slices(request, _steps(request.broker, body.topics))


def _steps(broker: Uses, topics: Sequence[DeleteRecordsTopic]) -> Steps[DeleteRecordsResponse]:
    results: list[DeleteRecordsTopicResult] = []
    advanced: list[DeleteRecordsPartitionResult] = []
    for name, wanted in partitions_by_topic(topics).items():
        partitions: list[DeleteRecordsPartitionResult] = []
        # Of a partition that is named several times, the last entry counts, as in Kafka.
        for part in {part.partition_index: part for part in wanted}.values():
            log = broker.topics.log(name, part.partition_index)
            segments = 0 if log is None else len(log.segments)
            answer = DeleteRecordsPartitionResult(part.partition_index, -1, _delete(broker, log, part.offset))
            partitions.append(answer)
            if log is not None and not answer.error_code:
                answer.low_watermark = log.log_start_offset
                advanced.append(answer)
                segments -= len(log.segments)
            yield ELEMENT_COST + PARTITION_CHANGE_COST * segments
        if partitions:
            results.append(DeleteRecordsTopicResult(name, partitions))
    try:
        if advanced:
            broker.data_dir.write_start_offsets()
    except StorageError as fault:
        broker.events.error("start_offsets_not_written", fault=str(fault))
        for answer in advanced:
            answer.error_code, answer.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
    return DeleteRecordsResponse(topics=results)


def _delete(broker: Uses, log: PartitionLog | None, offset: int) -> ErrorCode:
    """Delete the records of a log below an offset."""
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.topic in INTERNAL:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not log.config.delete:
        return ErrorCode.POLICY_VIOLATION
    before = log.next_offset if offset == HIGH_WATERMARK else offset
    if not 0 <= before <= log.next_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    try:
        log.delete_records(before)
    except StorageError as fault:
        broker.events.error("records_not_deleted", topic=log.topic, partition=log.index, fault=str(fault))
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
