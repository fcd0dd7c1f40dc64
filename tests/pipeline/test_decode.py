"""Fetched bytes as Arrow: the same records as aiokafka's decoder gives, and nothing of what is broken or aborted."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stuntbroker.pipeline.decode import BadBatch, aborted_rows, decode, find_batches
from stuntbroker.protocol.batches.records import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    build_batch,
    read_header,
    read_records,
    seal,
)
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import DecodeError

NOW_MS = 1_700_000_000_000
CODECS = range(5)

texts = st.none() | st.binary(max_size=6) | st.sampled_from([b"v" * 63, b"v" * 64, b"v" * 200, b"v" * 9_000])
headers = st.lists(st.tuples(st.text(max_size=3), texts), max_size=3)
times = st.integers(-(2**40), 2**40)
records = st.lists(st.tuples(st.integers(1, 100), times, texts, texts, st.just([]) | headers), min_size=1, max_size=70)
"""(offset step, time, key, value, headers); steps above 1 are gaps, as in compacted logs."""


def batch_of(rows: list[Any], codec: int, append_time: bool, base_offset: int) -> bytearray:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    offset = -1
    for step, delta_ms, key, value, some in rows:
        offset += step
        assert builder.append(offset, NOW_MS + delta_ms, key, value, some) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    if append_time:
        data[22] |= LOG_APPEND_TIME
        seal(data)
    return data


def rows_of(data: bytes, with_headers: bool = True) -> list[tuple[Any, ...]]:
    actual: list[tuple[Any, ...]] = []
    for each in decode(find_batches(data), with_headers):
        kept = [None] * len(each.offset) if each.headers is None else each.headers.to_pylist(maps_as_pydicts=None)
        assert each.offset.dtype == each.timestamp_ms.dtype == np.int64 and each.timestamp_type.dtype == np.int32
        columns = (each.offset, each.timestamp_ms, each.timestamp_type)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        pairs = zip(each.key.to_pylist(), each.value.to_pylist(), kept, strict=True)
        actual += [(*number, *pair) for number, pair in zip(numbers, pairs, strict=True)]
    return actual


def rows_of_aiokafka(data: bytes) -> list[tuple[Any, ...]]:
    actual: list[tuple[Any, ...]] = []
    batches: Any = MemoryRecords(data)
    while batches.has_next():
        for each in batches.next_batch():
            some = [{"key": key, "value": value} for key, value in each.headers] or None
            actual.append((each.offset, each.timestamp, each.timestamp_type, each.key, each.value, some))
    return actual


@settings(deadline=None)
@given(st.lists(st.tuples(records, st.sampled_from(CODECS), st.booleans()), min_size=1, max_size=6))
def test_every_record_is_what_aiokafka_makes_of_it(batches: list[Any]) -> None:
    data, base_offset = b"", 5
    for rows, codec, append_time in batches:
        data += batch_of(rows, codec, append_time, base_offset)
        base_offset += sum(step for step, *_ in rows) + 3

    assert rows_of(data) == rows_of_aiokafka(data)
    assert [row[:5] for row in rows_of(data, with_headers=False)] == [row[:5] for row in rows_of_aiokafka(data)]


def test_a_header_key_that_is_no_text_is_shown_with_replacements() -> None:
    data = batch_of([(1, 0, None, b"v", [("aé", b"1")])], 0, False, 0)
    data[data.index("é".encode())] = 0xFF
    seal(data)

    assert rows_of(data)[0][-1] == [{"key": "a��", "value": b"1"}]


@pytest.mark.parametrize("cut", [1, 30, 80])
def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(cut: int) -> None:
    whole = build_batch([(b"k", b"v" * 50)], NOW_MS)
    batches = find_batches(whole + whole[:cut])

    assert batches.positions.tolist() == [0]
    assert batches.next_offset == 1


def test_messages_of_older_formats_are_refused() -> None:
    old = struct.pack(">qiIbb", 0, 22, 0, 1, 0) + struct.pack(">qii", NOW_MS, -1, -1)

    with pytest.raises(BadBatch, match="before version 2"):
        find_batches(old)


def test_a_wrong_crc_is_reported_with_its_offset() -> None:
    good, bad = build_batch([(b"k", b"v")], NOW_MS, base_offset=6), build_batch([(b"k", b"v")], NOW_MS, base_offset=7)
    bad[-2] ^= 1

    with pytest.raises(BadBatch, match="offset 7 has a wrong CRC"):
        rows_of(good + bad)


def test_invalid_compressed_data_is_reported_with_its_offset() -> None:
    bad = batch_of([(1, 0, b"k" * 90, b"v" * 90, [])], 4, False, 9)
    bad[HEADER_SIZE] ^= 0xFF
    seal(bad)

    with pytest.raises(BadBatch, match="offset 9: zstd"):
        rows_of(bad)


@settings(deadline=None)
@given(records, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3))
def test_broken_records_are_accepted_only_if_the_one_by_one_reader_accepts_them(
    rows: list[Any], changes: list[tuple[int, int]]
) -> None:
    """The CRC is correct, so the batch was written like this. Both readers accept it, or both reject it."""
    data = batch_of(rows, 0, False, 0)
    for place, byte in changes:
        data[HEADER_SIZE + place % (len(data) - HEADER_SIZE)] = byte
    seal(data)
    try:
        expected = [
            (each.offset, each.timestamp, each.key, each.value, len(each.headers))
            for each in read_records(read_header(data), memoryview(data)[HEADER_SIZE:])
        ]
    except DecodeError:
        with pytest.raises(BadBatch):
            rows_of(data)
        return

    assert [(row[0], row[1], row[3], row[4], len(row[5] or ())) for row in rows_of(data)] == expected


HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"
"""2^63 - 1."""
BROKEN = {
    "a byte behind the last field": b"\x00\x00\x00\x01\x01\x00\x00",
    "a header that is not there": b"\x00\x00\x00\x01\x01\x02",
    "a header that goes beyond": b"\x00\x00\x00\x01\x01\x02\x02a\x08b",
    "a header without a key": b"\x00\x00\x00\x01\x01\x02\x01\x02b",
    "less headers than there are": b"\x00\x00\x00\x01\x01\x02\x02a\x02b\x02a\x02b",
    "headers of a negative number": b"\x00\x00\x00\x01\x01\x01",
    "a key that goes beyond": b"\x00\x00\x00\x08k\x01\x00",
    "a key without end": b"\x00\x00\x00" + HUGE + b"\x01\x02\x02a\x02b",
    "a value that goes beyond": b"\x00\x00\x00\x01\x08v\x00",
    "a value without end": b"\x00\x00\x00\x01" + HUGE + b"\x02\x02a\x02b",
    "a value as far as the magic of the next batch": b"\x00\x00\x00\x01\x20",
    "an offset behind the last": b"\x00\x00\x02\x01\x01\x00",
    "a negative offset": b"\x00\x00\x01\x01\x01\x00",
    "fewer fields": b"\x00\x00\x00\x01",
}

IN_HEADERS = {body for name, body in BROKEN.items() if name.startswith(("a header", "less headers"))}
"""Faults in headers, which are only detected when headers are decoded."""


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_record_is_reported_with_the_offset_of_its_batch(body: bytes) -> None:
    good, bad = build_batch([(b"k", b"v")], NOW_MS, base_offset=6), build_batch([(None, None)], NOW_MS, base_offset=7)
    bad[HEADER_SIZE:] = bytes([2 * len(body)]) + body
    struct.pack_into(">i", bad, 8, len(bad) - 12)
    seal(bad)

    for with_headers in [True] if body in IN_HEADERS else [True, False]:
        with pytest.raises(BadBatch, match="offset 7 are not as it declares"):
            rows_of(good + bad + good, with_headers)


# --- what was aborted

events = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["data", "data", "commit", "abort", "plain"])), max_size=60
)


@settings(deadline=None)
@given(events, st.integers(0, 60))
@example([(0, "data"), (1, "data"), (0, "abort"), (1, "commit")], 0)
def test_aborted_batches_are_those_before_an_abort_marker_of_their_producer(
    log: list[tuple[int, str]], fetched_from: int
) -> None:
    """Markers in the log end each transaction; AbortedTransactions of a Fetch response lists those aborted in its range."""
    begun: dict[int, int] = {}
    gone: set[int] = set()
    listed: list[tuple[int, int]] = []
    attributes: list[int] = []
    for offset, (producer_id, kind) in enumerate(log):
        attributes.append({"data": TRANSACTIONAL, "plain": 0}.get(kind, TRANSACTIONAL | CONTROL))
        if kind == "data":
            begun.setdefault(producer_id, offset)
        elif kind != "plain" and (first := begun.pop(producer_id, None)) is not None and kind == "abort":
            gone |= {at for at in range(first, offset) if log[at] == (producer_id, "data")}
            if offset >= fetched_from:
                listed.append((producer_id, first))
    dtype = [("base_offset", np.int64), ("producer_id", np.int64), ("attributes", np.int16)]
    rows = [(at, log[at][0], attributes[at]) for at in range(min(fetched_from, len(log)), len(log))]
    actual = aborted_rows(np.array(rows, dtype), [item[0] for item in listed], [item[1] for item in listed])

    assert [row[0] for row, is_gone in zip(rows, actual, strict=True) if is_gone] == sorted(
        at for at in gone if at >= fetched_from
    )


def test_the_sample_batches_have_a_correct_crc() -> None:
    data = build_batch([(b"k", b"v")], NOW_MS)

    assert read_header(data).crc == crc32c(bytes(data[21:]))
