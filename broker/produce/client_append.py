"""Appends a client's batch to a log, and returns the fields of the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.batches.records import BatchHeader
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.errors import LogDeleted, StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.observation.events import Events

RECORD_LIST_TOO_LARGE: Final = ErrorCode.RECORD_LIST_TOO_LARGE


Outcome = tuple[ErrorCode, int, int, int]
"""Fields of a Produce response: error, base offset, log append time (ms), log start offset.

Numbers are -1 if there are none.
"""


def append_or_error(
    events: Events, log: PartitionLog, records: Buffer, header: BatchHeader, now_ms: int, opens_transaction: bool
) -> Outcome:
    """Append a validated batch; return its outcome. `opens_transaction`: it may be the first of a transaction (KIP-890)."""
    try:
        error, base_offset, stamped_ms = log.append_client(records, header, now_ms, opens_transaction)
    except LogDeleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1
    except StorageError as fault:
        events.error("append_failed", topic=log.topic, partition=log.index, fault=str(fault))
        return ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1
    # As in Kafka, there is no log start offset if a batch is too large for a segment.
    log_start_offset = -1 if error == RECORD_LIST_TOO_LARGE else log.log_start_offset
    return error, base_offset, stamped_ms, log_start_offset


def append_first(
    events: Events, log: PartitionLog, records: Buffer, header: BatchHeader, now_ms: int, opens_transaction: bool
) -> Outcome:
    """Append a batch whose partition the coordinator has just added or verified; as `append_or_error` otherwise.

    If the batch is refused or a duplicate, the partition remembers it as unresolved (KIP-890).
    """
    log.producers.renew_unresolved(header)
    outcome = append_or_error(events, log, records, header, now_ms, opens_transaction)
    log.producers.mark_unresolved(header, opens_transaction, now_ms)
    return outcome
