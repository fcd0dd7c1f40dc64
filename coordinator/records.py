"""A transaction as Kafka's transaction log holds it: key, value, and the batch around them.

Topic `__transaction_state`; key: int16 0 and the transactional id; value: TransactionLogValue version 0 while
`transaction.version` is 0, 1 from then on; a null value is a tombstone. One record a batch, not compressed.
"""

from __future__ import annotations

from stuntbroker.coordinator.state import Phase, TopicPartition, Txn
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.records import Record, build_batch

TOPIC = "__transaction_state"


def key_of(transactional_id: str) -> bytes:
    out = bytearray(b"\x00\x00")
    TransactionLogKey(transactional_id).encode(out, 0)
    return bytes(out)


def value_of(txn: Txn, version: int) -> bytearray:
    """`version` of the value; version 0 cannot carry the tagged fields."""
    out = bytearray(version.to_bytes(2, "big"))
    partitions: list[PartitionsSchema] | None = None
    if txn.phase is not Phase.EMPTY:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(txn.partitions):
            topics.setdefault(topic, []).append(index)
        partitions = [PartitionsSchema(topic, indexes) for topic, indexes in topics.items()]
    TransactionLogValue(
        txn.producer_id,
        txn.previous_producer_id,
        txn.next_producer_id,
        txn.producer_epoch,
        txn.next_producer_epoch,
        txn.last_producer_epoch,
        txn.timeout_ms,
        txn.phase,
        partitions,
        txn.updated_at_ms,
        txn.started_at_ms,
        txn.client_version,
    ).encode(out, version)
    return out


def batch_of(txn: Txn, version: int, now_ms: int) -> bytearray:
    return build_batch([(key_of(txn.transactional_id), value_of(txn, version))], now_ms)


def tombstone_of(transactional_id: str, now_ms: int) -> bytearray:
    return build_batch([(key_of(transactional_id), None)], now_ms)


def read_record(record: Record) -> tuple[str, Txn | None] | None:
    """(transactional id, its state or None for a tombstone); None for a record of another kind or version."""
    key, value = record.key, record.value
    if key is None or key[:2] != b"\x00\x00":
        return None
    transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
    if value is None:
        return transactional_id, None
    version = int.from_bytes(value[:2], "big", signed=True)
    if not 0 <= version <= 1:
        return None
    one = TransactionLogValue.decode(value, version, 2)
    try:
        phase = Phase(one.transaction_status)
    except ValueError as fault:
        raise DecodeError(f"{transactional_id}: no transaction state {one.transaction_status}", 2) from fault
    partitions: frozenset[TopicPartition] = frozenset(
        (topic.topic, index) for topic in one.transaction_partitions or () for index in topic.partition_ids
    )
    return transactional_id, Txn(
        transactional_id,
        one.producer_id,
        one.previous_producer_id,
        one.next_producer_id,
        one.producer_epoch,
        one.next_producer_epoch,
        one.last_producer_epoch,
        one.transaction_timeout_ms,
        phase,
        partitions,
        one.transaction_start_timestamp_ms,
        one.transaction_last_update_timestamp_ms,
        one.client_transaction_version,
    )
