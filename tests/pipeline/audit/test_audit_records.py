"""Reading records in parallel lanes gives the same rows as reading them one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_harness import Log, batch_with_headers, compressed, records_of, segment_at
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.pipeline import record_starts
from stuntbroker.pipeline.arrays import varints
from stuntbroker.pipeline.audit import records
from stuntbroker.pipeline.audit.scan import scan
from stuntbroker.pipeline.decode import decode, find_batches
from stuntbroker.protocol.batches.compression import GZIP, LZ4, decompress
from stuntbroker.protocol.batches.records import (
    CODECS,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    read_header,
    read_records,
    seal,
    zigzag,
)
from stuntbroker.protocol.primitives import DecodeError

FIELDS = st.none() | st.binary(max_size=300)
RECORD = st.tuples(FIELDS, FIELDS, st.lists(st.tuples(st.binary(max_size=5), FIELDS), max_size=3))
ATTRIBUTES = st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME, TRANSACTIONAL | CONTROL])


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    actual = draw(st.lists(RECORD, max_size=12))
    gaps = draw(st.lists(st.integers(1, 200), min_size=len(actual), max_size=len(actual)))
    deltas = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    created = batch_with_headers(actual, attributes=draw(ATTRIBUTES), deltas=deltas, pid=7, epoch=3)
    if not actual:  # Kafka keeps the header of a producer's last batch when compaction has taken the records.
        created[23:27] = (5).to_bytes(4, "big")
        seal(created)
    return compressed(created, draw(st.sampled_from(sorted(CODECS))) if actual else 0)


def one_by_one(data: bytes) -> list[dict[str, Any]]:
    actual, at = [], 0
    while at < len(data):
        header = read_header(data, at)
        payload = data[at + HEADER_SIZE : at + header.size]
        opened = decompress(header.codec, payload, 1 << 20) if header.codec else payload
        actual += [
            {
                "topic": "t", "partition": 0, "segment_base_offset": 0, "offset": record.offset,
                "timestamp": record.timestamp, "key": record.key, "value": record.value,
                "headers": [{"key": key, "value": value} for key, value in record.headers],
                "producer_id": header.producer_id, "producer_epoch": header.producer_epoch,
                "is_transactional": header.transactional, "is_control": header.control,
            }
            for record in read_records(header, opened)
        ]  # fmt: skip
        at += header.size
    return actual


def in_lanes_from(patch: pytest.MonkeyPatch, lanes: int) -> None:
    """Lower the limits, so that `lanes` lanes are enough for reading in lanes."""
    patch.setattr(record_starts, "GUESS_RECORDS_MIN", 1)
    patch.setattr(record_starts, "LANES_MIN", lanes)


@given(
    written=st.lists(batches(), min_size=1, max_size=6),
    lanes=st.sampled_from([1, 3, 1_000]),
    chunk=st.sampled_from([1, 500, 1 << 26]),
)
def test_records_read_in_lanes_equal_records_read_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, written: list[bytes], lanes: int, chunk: int
) -> None:
    """This holds for any number of lanes and any chunk size."""
    log = Log(tmp_path_factory.mktemp("log"), "t")
    for batch in written:
        log.append(batch)
    with pytest.MonkeyPatch.context() as patch:
        in_lanes_from(patch, lanes)
        patch.setattr(records, "CHUNK_BYTES", chunk)
        actual, faults = records_of(segment_at(log.path), rows_max=4)

    assert faults == []
    assert actual == one_by_one(log.path.read_bytes())


@given(at=st.integers(HEADER_SIZE, 10_000), byte=st.integers(0, 255), lanes=st.sampled_from([1, 1_000]))
def test_a_batch_that_contradicts_its_header_is_skipped_and_reported(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, lanes: int
) -> None:
    """The CRC is correct, so only the records are wrong; both ways of reading must reject the same batches."""
    log = Log(tmp_path_factory.mktemp("log"), "t")
    good = batch_with_headers([(b"k", b"v", [(b"h", b"w")])] * 3)
    broken = batch_with_headers([(b"key%d" % n, b"v" * 40 * n, [(b"h", None)] * n) for n in range(4)])
    broken[HEADER_SIZE + (at - HEADER_SIZE) % (len(broken) - HEADER_SIZE)] = byte
    seal(broken)
    for batch in (good, broken, good):
        log.append(batch)
    data = log.path.read_bytes()
    try:
        expected, messages = one_by_one(data), 0
    except DecodeError:
        expected = one_by_one(data[: len(good)]) + one_by_one(data[-len(good) :])
        messages = 1
    with pytest.MonkeyPatch.context() as patch:
        in_lanes_from(patch, lanes)
        actual, faults = records_of(segment_at(log.path))

    assert (actual, len(faults)) == (expected, messages)
    assert all(fault.position == len(good) for fault in faults)


def with_header(batch: bytearray, at: int, size: int, value: int) -> bytearray:
    batch[at : at + size] = value.to_bytes(size, "big", signed=True)
    return batch


COUNT, LAST_DELTA = 57, 23
GOOD = [(b"k", b"v", [(b"h", b"w")])] * 3
MALFORMED = {
    "fewer records than there are": lambda: with_header(batch_with_headers(GOOD), COUNT, 4, 2),
    "more records than there are": lambda: with_header(batch_with_headers(GOOD), COUNT, 4, 4),
    "very many records": lambda: with_header(batch_with_headers(GOOD), COUNT, 4, 2**31 - 1),
    "a negative number of records": lambda: with_header(batch_with_headers(GOOD), COUNT, 4, -1),
    "an offset behind the last": lambda: with_header(batch_with_headers(GOOD), LAST_DELTA, 4, 1),
    "bytes behind the last record": lambda: longer(batch_with_headers(GOOD)),
    "a header without a key": lambda: batch_with_headers([(b"k", b"v", [(None, b"w")])]),  # type: ignore[list-item]
    "a length of 65 bits": lambda: longer(
        batch_with_headers(GOOD[:1])[:HEADER_SIZE], b"\xff" * 9 + b"\x7f" + b"\x00" * 20
    ),
}


def longer(batch: bytearray, data: bytes = b"\x00") -> bytearray:
    batch += data
    return with_header(batch, 8, 4, len(batch) - 12)


@pytest.mark.parametrize("lanes", [1, 1_000])
@pytest.mark.parametrize("make", MALFORMED.values(), ids=MALFORMED)
def test_malformed_batches_are_skipped_and_reported(
    make: Callable[[], bytearray], lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_lanes_from(monkeypatch, lanes)
    broken = make()
    seal(broken)
    log = Log(tmp_path, "t")
    for batch in (batch_with_headers(GOOD), broken, batch_with_headers(GOOD)):
        log.append(batch)
    actual, faults = records_of(segment_at(log.path))

    assert (len(actual), len(faults)) == (6, 1)


def test_batches_with_a_large_decompressed_size_are_decompressed_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CHUNK_BYTES", 100_000)
    log = Log(tmp_path, "t")
    for _ in range(6):
        log.append(compressed(batch_with_headers([(b"k", bytes(40_000), [])]), 4))
    segment = segment_at(log.path)
    (scanned,) = scan(segment)

    assert [each.records.num_rows for each in records.decode_records(segment, scanned)] == [2, 2, 2]


def test_varints_of_any_length_are_read() -> None:
    numbers = [0, -1, 63, 64, -65, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]
    log = bytearray()
    at = []
    for number in numbers:
        at.append(len(log))
        zigzag(log, number)

    actual, behind = varints(np.frombuffer(bytes(log), np.uint8), np.array(at))

    assert actual.tolist() == numbers
    assert behind.tolist() == [*at[1:], len(log)]


@pytest.mark.parametrize("last", [b"\x02", b"\x7f", b"\x80\x00"])
def test_a_varint_of_more_than_64_bits_ends_after_the_end_of_the_data(last: bytes) -> None:
    data = np.frombuffer(b"\xff" * 9 + last + bytes(8), np.uint8)
    _, behind = varints(data, np.array([0]))

    assert behind[0] > len(data)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_bytes_after_a_compressed_stream_are_ignored_as_by_the_broker(codec: int, tmp_path: Path) -> None:
    batch = bytearray(compressed(batch_with_headers([(b"k", b"v" * 90, [])]), codec)) + bytes(8)
    batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
    seal(batch)
    log = Log(tmp_path, "t")
    log.append(batch)
    actual, faults = records_of(segment_at(log.path))

    assert (actual, faults) == (one_by_one(bytes(batch)), [])
    assert [row["value"] for row in actual] == [b"v" * 90]
    (columns,) = decode(find_batches(bytes(batch)), True)
    assert columns.value.to_pylist() == [b"v" * 90]


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_batch_over_the_limit_of_the_decompressed_size_is_reported(codec: int, tmp_path: Path) -> None:
    log = Log(tmp_path, "t")
    log.append(compressed(batch_with_headers([(b"k", bytes(5_000_000), [])]), codec))
    log.append(batch_with_headers([(b"k", b"v", [])]))
    segment = segment_at(log.path)
    (scanned,) = scan(segment)
    (decoded,) = records.decode_records(segment, scanned, 4_000_000)

    assert [row["value"] for row in decoded.records.to_pylist()] == [b"v"]
    assert [fault.position for fault in decoded.faults] == [0]
    assert "more than 4000000 bytes" in decoded.faults[0].message
    (whole,) = records.decode_records(segment, scanned, 6_000_000)
    assert whole.faults == ()
