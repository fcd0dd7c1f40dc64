"""Appending a client's batch to its log, and what is answered when that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.protocol.batches.records import BatchHeader
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.errors import LogDeleted, StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.events import Events

RECORD_LIST_TOO_LARGE: Final = ErrorCode.RECORD_LIST_TOO_LARGE


class Outcome(NamedTuple):
    """What Produce answers for a partition. Numbers are -1 where there are none."""

    error: ErrorCode
    base_offset: int = -1
    stamped_ms: int = -1
    """The time that the log has given the batch."""
    log_start_offset: int = -1


def append_or_error(
    events: Events, log: PartitionLog, records: Buffer, header: BatchHeader, now_ms: int, opens_transaction: bool
) -> Outcome:
    """Append a batch that was checked. `opens_transaction`: it may be the first of a transaction (KIP-890)."""
    try:
        error, base_offset, stamped_ms = log.append_client(records, header, now_ms, opens_transaction)
    except LogDeleted:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except StorageError as fault:
        events.error("append_failed", topic=log.topic, partition=log.index, fault=str(fault))
        return Outcome(ErrorCode.KAFKA_STORAGE_ERROR)
    # As in Kafka, which refuses a batch that is too large for a segment before it looks at the log.
    log_start_offset = -1 if error == RECORD_LIST_TOO_LARGE else log.log_start_offset
    return Outcome(error, base_offset, stamped_ms, log_start_offset)
