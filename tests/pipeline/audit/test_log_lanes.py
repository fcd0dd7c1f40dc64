"""Reading coordinator logs in parallel lanes gives the same rows as one by one, also for unusual records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stuntbroker.pipeline.audit import offsets_log, txn_log
from stuntbroker.pipeline.audit.log_records import Log
from stuntbroker.pipeline.audit.records import RECORDS
from stuntbroker.pipeline.audit.txn_lanes import TOPICS_MAX
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
NAMES = st.text(min_size=1, max_size=9)
TOPICS = st.builds(PartitionsSchema, st.text(max_size=200), st.lists(INT32, max_size=4))
VALUES = st.builds(
    TransactionLogValue,
    producer_id=INT64,
    producer_epoch=INT16,
    transaction_timeout_ms=INT32,
    transaction_status=st.integers(0, 6),
    transaction_partitions=st.none() | st.lists(TOPICS, max_size=4),
    transaction_last_update_timestamp_ms=INT64,
    transaction_start_timestamp_ms=INT64,
)
TAGGED = st.fixed_dictionaries({}, optional={
    "previous_producer_id": INT64, "next_producer_id": INT64, "next_producer_epoch": INT16, "last_producer_epoch": INT16,
    "timed_out_epoch": INT16, "init_version": INT16, "client_transaction_version": INT16,
})  # fmt: skip


def encoded(value: TransactionLogValue, version: int, tagged: dict[str, int]) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    if version:
        for name, number in tagged.items():
            setattr(value, name, number)
    value.encode(out, version)
    return bytes(out)


def key_of(name: str) -> bytes:
    out = bytearray(2)
    TransactionLogKey(name).encode(out, 0)
    return bytes(out)


def bent(data: bytes, at: int, byte: int) -> bytes:
    """Return the data with one byte changed, or truncated at `at`."""
    at %= len(data) + 1
    return data[:at] if at == len(data) or byte == 256 else data[:at] + bytes([byte]) + data[at + 1 :]


WHOLE = st.builds(encoded, VALUES, st.integers(0, 1), TAGGED)
BROKEN = st.builds(bent, WHOLE, st.integers(0, 400), st.integers(0, 256))
KEYS = st.builds(key_of, NAMES)
PAIRS = st.tuples(
    KEYS | st.builds(bent, KEYS, st.integers(0, 12), st.integers(0, 256)) | st.none(),
    WHOLE | WHOLE | BROKEN | st.binary(max_size=40) | st.none(),
)


def records(pairs: list[tuple[Any, Any]]) -> pa.RecordBatch:
    columns = {field.name: pa.nulls(len(pairs), field.type) for field in RECORDS}
    columns["partition"] = pa.array([3] * len(pairs), pa.int32())
    columns["offset"] = pa.array(range(10, 10 + len(pairs)), pa.int64())
    columns["producer_id"] = pa.array([-1] * len(pairs), pa.int64())
    columns["producer_epoch"] = pa.array([-1] * len(pairs), pa.int16())
    columns["timestamp"] = pa.array(range(len(pairs)), pa.int64())
    columns["is_control"] = pa.array([False] * len(pairs))
    columns["key"] = pa.array([key for key, _ in pairs], pa.binary())
    columns["value"] = pa.array([value for _, value in pairs], pa.binary())
    return pa.record_batch(list(columns.values()), schema=RECORDS)


def one_by_one(log: Log, batch: pa.RecordBatch) -> tuple[list[Any], list[Any]]:
    wanted = [key is None or key[:2] in log.kinds for key in batch["key"].to_pylist()]
    rows, _, faults = log.one_by_one(batch.filter(pa.array(wanted, pa.bool_())))
    return rows.to_pylist(), faults


@given(st.lists(PAIRS, max_size=12))
@example([(key_of("a"), b"\x00\x01" + bytes(40)), (b"\x00\x00\x00\x01\xff", None)])
def test_transactions_read_in_lanes_equal_those_read_one_by_one(pairs: list[tuple[Any, Any]]) -> None:
    batch = records(pairs)
    rows, faults = txn_log.read_txn_state(batch)

    assert (rows.to_pylist(), faults) == one_by_one(txn_log.LOG, batch)


def offset_key(version: int, group: str, topic: str, partition: int) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    OffsetCommitKey(group, topic, partition).encode(out, min(version, 1))
    return bytes(out)


def offset_value(version: int, offset: int, leader_epoch: int, metadata: str, times: tuple[int, int]) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    OffsetCommitValue(
        offset, leader_epoch if version >= 3 else -1, metadata, times[0], times[1] if version == 1 else -1
    ).encode(out, version)
    return bytes(out)


OFFSET_KEYS = st.builds(offset_key, st.integers(0, 2), NAMES, NAMES, INT32)
OFFSET_VALUES = st.builds(offset_value, st.integers(0, 4), INT64, INT32, st.text(max_size=9), st.tuples(INT64, INT64))
OFFSETS = st.tuples(
    OFFSET_KEYS | st.builds(bent, OFFSET_KEYS, st.integers(0, 30), st.integers(0, 256)) | st.none(),
    OFFSET_VALUES | OFFSET_VALUES | st.builds(bent, OFFSET_VALUES, st.integers(0, 40), st.integers(0, 256)) | st.none(),
)


@given(st.lists(OFFSETS, max_size=12))
@example([(offset_key(1, "g", "t", 0), offset_value(3, 5, 1, "m", (1, 2))), (offset_key(0, "g", "t", 1), None)])
def test_offsets_read_in_lanes_equal_those_read_one_by_one(pairs: list[tuple[Any, Any]]) -> None:
    batch = records(pairs)
    rows, faults = offsets_log.read_offsets(batch)

    assert (rows.to_pylist(), faults) == one_by_one(offsets_log.LOG, batch)


def asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of records of each batch read one by one from now on."""
    request: list[int] = []
    plain = Log.one_by_one
    monkeypatch.setattr(Log, "one_by_one", lambda log, batch: request.append(len(batch)) or plain(log, batch))
    return request


@pytest.mark.parametrize("version", [0, 1])
def test_usual_transactions_are_all_read_in_lanes(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them one by one would be correct, but ten times slower."""
    listed = [PartitionsSchema("t" * size, range(size % 3)) for size in (1, 5, 249)]
    value = TransactionLogValue(7, transaction_status=1, transaction_partitions=listed)
    tagged = {"previous_producer_id": 1, "last_producer_epoch": 2, "client_transaction_version": 2, "init_version": 5}
    pairs = [(key_of("id"), encoded(value, version, tagged)), (key_of("gone"), None)]
    request = asked_one_by_one(monkeypatch)
    rows, faults = txn_log.read_txn_state(records(pairs * 3))

    assert (len(rows), faults, request) == (6, [], [])
    # A record with very many topics is read one by one.
    value.transaction_partitions = [PartitionsSchema("t", [0])] * (TOPICS_MAX + 1)
    rows, _ = txn_log.read_txn_state(records([*pairs, (key_of("id"), encoded(value, version, {}))]))
    assert ([len(row["partitions"]) for row in rows.to_pylist()], request) == ([3, 0, TOPICS_MAX + 1], [1])


def test_usual_offsets_are_all_read_in_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(offset_key(1, "g", "t", 7), offset_value(version, 5, 1, "m", (1, 2))) for version in range(4)]
    request = asked_one_by_one(monkeypatch)
    rows, faults = offsets_log.read_offsets(records([*pairs, (offset_key(1, "g", "t", 8), None)]))

    assert ([row["committed_offset"] for row in rows.to_pylist()], faults, request) == ([5, 5, 5, 5, None], [], [])
