"""What the coordinators wrote down: the records of `__transaction_state` as Arrow."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError

TOPIC: Final = "__transaction_state"
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
TIMEOUT_NONE: Final = 2**31 - 1
"""The time-out of a transaction of two-phase commit (KIP-939): it waits for its owner for ever."""
_VALUE_VERSIONS = range(2)

TXN_STATE: Final = pa.schema({
    "log_partition": pa.int32(),
    "log_offset": pa.int64(),
    "timestamp": pa.int64(),
    "transactional_id": pa.string(),
    "state": pa.string(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "previous_producer_id": pa.int64(),
    "next_producer_id": pa.int64(),
    "next_producer_epoch": pa.int16(),
    "last_producer_epoch": pa.int16(),
    "timed_out_epoch": pa.int16(),
    "timeout_ms": pa.int32(),
    "start_ms": pa.int64(),
    "update_ms": pa.int64(),
    "client_transaction_version": pa.int16(),
    "partitions": pa.list_(pa.struct({"topic": pa.string(), "partition": pa.int32()})),
})  # fmt: skip
"""A row a record. A tombstone has the state Dead and nothing else; -1 stands for what a record does not say.

`last_producer_epoch` and `timed_out_epoch` are facts that Apache Kafka does not store.
"""
DEAD: Final = "Dead"


def read_txn_state(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """(rows of TXN_STATE, (offset, what is wrong) of records that cannot be read) from rows of RECORDS.

    Keys of another kind are no fault: a coordinator skips them too.
    """
    rows: list[tuple[Any, ...]] = []
    faults: list[tuple[int, str]] = []
    columns = (records[name].to_pylist() for name in ("partition", "offset", "timestamp", "key", "value", "is_control"))
    for partition, offset, timestamp, key, value, is_control in zip(*columns, strict=True):
        if is_control or (key is not None and key[:2] != b"\x00\x00"):
            continue
        try:
            rows.append((partition, offset, timestamp, *_read(key, value)))
        except (DecodeError, ValueError) as fault:
            faults.append((offset, str(fault)))
    found = zip(*rows, strict=True) if rows else [()] * len(TXN_STATE)
    arrays = [pa.array(values, field.type) for values, field in zip(found, TXN_STATE, strict=True)]
    return pa.record_batch(arrays, schema=TXN_STATE), faults


def _read(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
    if key is None:
        raise ValueError("no key")
    transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
    if value is None:
        return transactional_id, DEAD, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, []
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in _VALUE_VERSIONS:
        raise ValueError(f"{transactional_id}: a value of version {version}")
    one = TransactionLogValue.decode(value, version, 2)
    if not 0 <= one.transaction_status < len(STATES):
        raise ValueError(f"{transactional_id}: no transaction state {one.transaction_status}")
    listed = one.transaction_partitions
    return (
        transactional_id, STATES[one.transaction_status], one.producer_id, one.producer_epoch, one.previous_producer_id,
        one.next_producer_id, one.next_producer_epoch, one.last_producer_epoch, one.timed_out_epoch,
        one.transaction_timeout_ms, one.transaction_start_timestamp_ms, one.transaction_last_update_timestamp_ms,
        one.client_transaction_version,
        [(topic.topic, index) for topic in listed for index in topic.partition_ids] if listed else [],
    )  # fmt: skip
