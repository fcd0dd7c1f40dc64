"""Decode the records of `__transaction_state` as Arrow."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import Array, byte_strings
from stuntbroker.pipeline.audit.lanes import INT16, as_text, integers, places_of
from stuntbroker.pipeline.audit.log_records import Fault, Log
from stuntbroker.pipeline.audit.txn_lanes import NUMBERS, PAIRS, Values, read_values
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import TransactionLogValue
from stuntbroker.protocol.transaction_states import STATES

_KEY_HEAD: Final = 4
"""Bytes of a key before the id: the version and the length of the id."""
_VALUE_VERSIONS = range(2)

TXN_STATE: Final = pa.schema(
    {
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
        "partitions": PAIRS,
    }
)
"""One row per record. A tombstone only has the state Dead; -1 marks fields that a record does not have.

`last_producer_epoch` and `timed_out_epoch` are stored by Stuntbroker only, not by Apache Kafka.
"""
DEAD: Final = "Dead"


def read_txn_state(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Fault]]:
    """Decode rows of RECORDS; return (rows of TXN_STATE, undecodable records)."""
    return LOG.read(records)


def _read_lanes(records: pa.RecordBatch) -> list[tuple[Array, pa.Table]]:
    data, starts, ends = places_of(records["key"])
    good = (ends - starts >= _KEY_HEAD) & (integers(data, starts + 2, INT16) == ends - starts - _KEY_HEAD)
    ids = (data, starts + _KEY_HEAD, ends - starts - _KEY_HEAD)
    data, starts, ends = places_of(records["value"])
    dead = np.asarray(records["value"].is_null())
    versions = integers(data, starts, INT16)
    pieces = []
    if len(numbers := np.flatnonzero(good & dead)):
        pieces.append((numbers, LOG.rows_of(records, numbers, _tombstones(len(numbers)) | _ids(*ids, numbers))))
    for version in _VALUE_VERSIONS:
        if len(lanes := np.flatnonzero(good & ~dead & (versions == version))):
            values = read_values(data, starts[lanes], ends[lanes], version)
            if len(numbers := lanes[values.good]):
                pieces.append((numbers, LOG.rows_of(records, numbers, _columns(values) | _ids(*ids, numbers))))
    return pieces


def _ids(data: Array, at: Array, sizes: Array, numbers: Array) -> dict[str, Any]:
    return {"transactional_id": as_text(byte_strings(pa.py_buffer(data), at[numbers], sizes[numbers]))}


def _tombstones(count: int) -> dict[str, Any]:
    columns = {name: np.full(count, default) for name, default in NUMBERS.items()}
    return columns | {"state": pa.repeat(DEAD, count), "partitions": pa.array([[]] * count, PAIRS)}


def _columns(values: Values) -> dict[str, Any]:
    row = np.flatnonzero(values.good)
    columns: dict[str, Any] = {name: column[row] for name, column in values.numbers.items()}
    columns["state"] = pa.array(STATES).take(pa.array(values.states[row]))
    columns["partitions"] = values.partitions if len(row) == len(values.good) else values.partitions.take(pa.array(row))
    return columns


def _read(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
    if key is None:
        raise ValueError("no key")
    transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
    if value is None:
        return transactional_id, DEAD, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, []
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in _VALUE_VERSIONS:
        raise ValueError(f"{transactional_id}: a value of version {version}")
    state = TransactionLogValue.decode(value, version, 2)
    if not 0 <= state.transaction_status < len(STATES):
        raise ValueError(f"{transactional_id}: no transaction state {state.transaction_status}")
    listed = state.transaction_partitions
    return (
        transactional_id,
        STATES[state.transaction_status],
        state.producer_id,
        state.producer_epoch,
        state.previous_producer_id,
        state.next_producer_id,
        state.next_producer_epoch,
        state.last_producer_epoch,
        state.timed_out_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_timestamp_ms,
        state.transaction_last_update_timestamp_ms,
        state.client_transaction_version,
        [(topic.topic, index) for topic in listed for index in topic.partition_ids] if listed else [],
    )


LOG: Final = Log(TXN_STATE, ("partition", "offset", "timestamp"), (b"\x00\x00",), _read_lanes, _read)
