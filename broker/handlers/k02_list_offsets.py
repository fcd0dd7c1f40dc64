"""ListOffsets, key 2, versions 1-11: offsets by timestamp, and the first and last offsets of partitions.

v2 isolation level. v4 leader epochs. v6 flexible. v7 the largest timestamp (-3). v8-11 tiered storage.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.epochs import epoch_error
from stuntbroker.broker.requests.repeated_topics import partitions_by_topic
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.batches.budget import RECORD_STEPS, BudgetExceeded, ReadBudget
from stuntbroker.protocol.batches.records import BatchHeader
from stuntbroker.protocol.batches.walk import spans
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from stuntbroker.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.request_values import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from stuntbroker.storage.leader_epochs import NO_EPOCH, epoch_at
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTopics

    class Uses(HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 2
VERSIONS = range(1, 12)
KNOWN_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamp -> the first version that knows it."""
BATCH_STEPS: Final = 32
"""Cost of reading a batch from its file, in steps of a ReadBudget."""
TIME_LOOKUP_COST: Final = 10
"""Cost of a look-up by time in slice units: reads a file, and may have to open it."""


def handle(request: Asking[Uses], body: ListOffsetsRequest, version: int) -> ListOffsetsResponse | None:
    """Look up one offset for each partition; None when the response comes later."""
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _unknown_isolation_level_response(body)
    return run_in_slices(request, _steps(request, body, version))


def _steps(request: Asking[Uses], body: ListOffsetsRequest, version: int) -> Steps[ListOffsetsResponse]:
    topics = request.broker.topics
    committed = body.isolation_level == READ_COMMITTED
    responses = []
    budget = ReadBudget()
    for name, wanted in partitions_by_topic(body.topics).items():
        times = Counter(part.partition_index for part in wanted)
        partitions = []
        for part in {part.partition_index: part for part in wanted}.values():
            log, cost = topics.log(name, part.partition_index), ELEMENT_COST
            if times[part.partition_index] > 1:
                answer = _error(part, ErrorCode.INVALID_REQUEST)
            elif part.timestamp < 0 and version < KNOWN_FROM.get(part.timestamp, VERSIONS.stop):
                answer = _error(part, ErrorCode.UNSUPPORTED_VERSION)
            elif log is None:
                answer = _error(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif error := epoch_error(part.current_leader_epoch, log.leader_epoch):
                answer = _error(part, error)
            else:
                answer = _look_up(log, part, committed, budget)
                if part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP:
                    cost = TIME_LOOKUP_COST
            partitions.append(answer)
            yield cost
        if partitions:
            responses.append(ListOffsetsTopicResponse(name, partitions))
    return ListOffsetsResponse(topics=responses)


def _unknown_isolation_level_response(body: ListOffsetsRequest) -> ListOffsetsResponse:
    """Return the response for an unknown isolation level: an error for each partition, as often as it is requested."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [_error(part, ErrorCode.UNKNOWN_SERVER_ERROR) for part in topic.partitions]
            )
            for topic in body.topics
        ]
    )


def _error(part: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(part.partition_index, error)


def _look_up(
    log: PartitionLog, part: ListOffsetsPartition, committed: bool, budget: ReadBudget
) -> ListOffsetsPartitionResponse:
    log.assign_offsets()
    end = log.last_stable_offset if committed else log.next_offset
    timestamp, offset = -1, -1
    if part.timestamp == LATEST:
        offset = end
    elif part.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
    elif part.timestamp == MAX_TIMESTAMP:
        timestamp, offset = _latest(log, budget)
    elif part.timestamp >= 0:
        timestamp, offset = first_at(log, part.timestamp, log.log_start_offset, budget)
    if (part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP) and offset >= end:
        timestamp, offset = -1, -1
    if part.timestamp == LATEST:
        epoch = log.leader_epoch
    else:
        epoch = epoch_at(log.leader_epochs, offset) if offset >= 0 else NO_EPOCH
    return ListOffsetsPartitionResponse(part.partition_index, ErrorCode.NONE, timestamp, offset, epoch)


def _latest(log: PartitionLog, budget: ReadBudget) -> tuple[int, int]:
    """Return timestamp and offset of the first record with the largest timestamp; it may be below the log start, as in Kafka."""
    timestamp, _ = log.latest_timestamp()
    if timestamp < 0:
        return -1, -1
    return first_at(log, timestamp, 0, budget)


def first_at(log: PartitionLog, timestamp: int, from_offset: int, budget: ReadBudget) -> tuple[int, int]:
    """Return timestamp and offset of the first record of that time or later, (-1, -1) if there is none."""
    for header, batch in log.batches_since(timestamp, from_offset):
        position = _first_in(header, batch, timestamp, from_offset, budget)
        if position is not None:
            return position
    return -1, -1


def _first_in(
    header: BatchHeader, batch: Buffer, timestamp: int, from_offset: int, budget: ReadBudget
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of a batch's first record that matches, or of the batch if its records cannot be read."""
    budget.steps -= BATCH_STEPS
    try:
        payload, pos = budget.opened(header, batch)
        for span in spans(header, payload, pos):
            budget.steps -= RECORD_STEPS
            if budget.steps < 0:
                break
            if span.timestamp >= timestamp and span.offset >= from_offset:
                return span.timestamp, span.offset
        else:
            return None
    except (BudgetExceeded, ValueError):  # Too many steps, or invalid compressed data or records.
        pass
    # Unlike Kafka: the work of reading records is limited.
    return header.max_timestamp, max(header.base_offset, from_offset)
