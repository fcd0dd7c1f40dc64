"""Validation of records as in Kafka, with a bounded number of steps for any input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.protocol.batches import records as record_batches
from stuntbroker.protocol.batches import walk as record_walk
from stuntbroker.protocol.batches.check import READ_MAX, records_fill, records_fill_in_steps, small_records_wrong
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
    read_records,
    seal,
    unzigzag32,
    zigzag,
)
from stuntbroker.protocol.batches.walk import FAULTS_MAX, UNUSUAL_STEPS, Walked, spans, walk
from stuntbroker.protocol.primitives import DecodeError

NOW: Final = 1_790_000_000_000
HOUR: Final = 3_600_000
TIMES: Final = (NOW - HOUR, NOW + HOUR)
MANY: Final = 1 << 40


def varint(value: int) -> bytes:
    out = bytearray()
    zigzag(out, value)
    return bytes(out)


def long(value: int) -> bytes:
    """A varint in five bytes, longer than clients encode it."""
    value = (value << 1) ^ (value >> 63)
    return bytes([value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)]) + bytes([value >> 28])


def record(
    offset: int | bytes = 0,
    *,
    time: bytes = b"\0",
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\0",
    length: bytes | None = None,
    attributes: int = 0,
) -> bytes:
    """A record from its encoded fields."""
    delta = offset if isinstance(offset, bytes) else varint(offset)
    body = bytes((attributes,)) + time + delta + key + value + headers
    return (varint(len(body)) if length is None else length) + body


def header(count: int, attributes: int = 0, base: int = NOW, latest: int | None = None) -> BatchHeader:
    latest = base if latest is None else latest
    return BatchHeader(0, 0, 0, 2, 0, attributes, count - 1, base, latest, -1, -1, -1, count)


GOOD, NEXT = record(), record(1)
FINE, WRONG, TOO_FAR, KEYLESS, MISPLACED = "fine", "wrong", "late", "keyless", "misplaced"
RECORDS: Final[dict[str, tuple[list[bytes], str]]] = {
    # As in Kafka 4.3.1. KEYLESS is wrong in compacted topics only, MISPLACED in compressed batches only (UNKNOWN_SERVER_ERROR).
    "usual": ([GOOD, NEXT], FINE),
    "null value": ([record(value=b"\x01")], FINE),
    "a header": ([record(headers=b"\x02\x02a\x02b")], FINE),
    "a header without value": ([record(headers=b"\x02\x02a\x01")], FINE),
    "a header whose value has the length -2": ([record(headers=b"\x02\x02a\x03")], FINE),
    "a header with an empty name": ([record(headers=b"\x02\x00\x01")], FINE),
    "a header whose name is no UTF-8": ([record(headers=b"\x02\x02\xff\x02b")], FINE),
    "no headers, in two bytes": ([record(headers=b"\x80\x00")], FINE),
    "a long header": ([record(headers=b"\x02" + varint(200) + b"n" * 200 + varint(9_000) + b"v" * 9_000)], FINE),
    "header count -1": ([record(headers=b"\x01")], WRONG),
    "header count -64": ([record(headers=b"\x7f")], WRONG),
    "header count cut": ([record(headers=b"\x80")], WRONG),
    "header count 1 of none": ([record(headers=b"\x02")], WRONG),
    "header count 1 of 2": ([record(headers=b"\x02\x02a\x02b\x02a\x02b")], WRONG),
    "header count 2 of 1": ([record(headers=b"\x04\x02a\x02b")], WRONG),
    "header count 2^31-1": ([record(headers=varint(2**31 - 1))], WRONG),
    "header count in six bytes": ([record(headers=b"\x80" * 5 + b"\0")], WRONG),
    "a header without name": ([record(headers=b"\x02\x01\x02b")], WRONG),
    "a header whose name has the length -2": ([record(headers=b"\x02\x03\x02b")], WRONG),
    "a header whose name has a length far below 0": ([record(headers=b"\x02" + varint(-70) + b"\x02b")], WRONG),
    "a header whose name runs over": ([record(headers=b"\x02\x08ab\x01")], WRONG),
    "a header whose value runs over": ([record(headers=b"\x02\x02a" + varint(2**31 - 1))], WRONG),
    "bytes behind the headers": ([record(headers=b"\0x")], WRONG),
    "no key": ([record(key=b"\x01")], KEYLESS),
    "key length -2": ([record(key=b"\x03")], KEYLESS),
    "key length -100": ([record(key=varint(-100))], KEYLESS),
    "value length -2": ([record(value=b"\x03")], FINE),
    "value length -2^31": ([record(value=varint(-(2**31)))], FINE),
    "key length in five bytes": ([record(key=long(1) + b"k")], FINE),
    "key length in five bytes, with more than 32 bits": ([record(key=b"\x82\x80\x80\x80\x70k")], FINE),
    "key length in six bytes": ([record(key=b"\x82\x80\x80\x80\x80\x00k")], WRONG),
    "a key that runs over": ([record(key=b"\x20k")], WRONG),
    "a value that runs over": ([record(value=b"\x20v")], WRONG),
    "offset 1": ([record(1)], MISPLACED),
    "offset -1": ([record(-1)], MISPLACED),
    "offset 2^31-1": ([record(2**31 - 1)], MISPLACED),
    "offset 0 twice": ([GOOD, GOOD], MISPLACED),
    "offset 0 in two bytes": ([record(b"\x80\x00")], FINE),
    "offset 0 in six bytes": ([record(b"\x80\x80\x80\x80\x80\x00")], WRONG),
    "attributes": ([record(attributes=255)], FINE),
    "five seconds earlier": ([record(time=varint(-5_000))], FINE),
    "an hour later": ([record(time=varint(HOUR))], FINE),
    "an hour later, and more": ([record(time=varint(HOUR + 1))], TOO_FAR),
    "an hour earlier, and more": ([record(time=varint(-HOUR - 1))], TOO_FAR),
    "no timestamp": ([record(time=varint(-1 - NOW))], FINE),
    "ages later": ([record(time=varint(2**63 - 1))], TOO_FAR),
    "time in eleven bytes": ([record(time=b"\xff" * 10 + b"\x01")], WRONG),
    "length one less": ([record(length=varint(7)), NEXT], WRONG),
    "length one more": ([record(length=varint(9)), NEXT], WRONG),
    "length 0": ([b"\0"], WRONG),
    "length -1": ([b"\x01"], WRONG),
    "length -9, where 8 were right": ([record(length=b"\x11")], WRONG),
    "length in five bytes": ([record(length=long(8))], FINE),
    "shorter than any record": ([b"\x0a\0\0\0\x01\x01"], WRONG),
    "as short as can be": ([b"\x0c\0\0\0\x01\x01\0"], KEYLESS),
    "late, and wrong": ([record(time=varint(HOUR + 1)), record(1, headers=b"\x01")], WRONG),
    "late, and misplaced": ([record(1, time=varint(HOUR + 1))], TOO_FAR),
}


def kind_of(actual: Walked) -> str:
    assert not actual.unread
    if actual.wrong is not None:
        return WRONG
    if actual.faults:
        return KEYLESS if actual.faults[0][1] is None else TOO_FAR
    return FINE if actual.misplaced is None else MISPLACED


@pytest.mark.parametrize("what", RECORDS)
def test_records_are_validated_as_in_kafka(what: str) -> None:
    records, expected = RECORDS[what]
    payload = b"".join(records)

    assert kind_of(walk(payload, 0, header(len(records)), MANY, True, TIMES)) == expected
    assert kind_of(walk(payload, 0, header(len(records)), MANY, False, TIMES)) == (
        FINE if expected == KEYLESS else expected
    )


@pytest.mark.parametrize("what", RECORDS)
def test_small_records_wrong_detects_plain_records_that_kafka_refuses(what: str) -> None:
    """Records as clients send them are not detected as wrong."""
    records, expected = RECORDS[what]
    payload = bytes(61) + b"".join(records)
    created = header(len(records))._replace(length=len(payload) - 12)

    if expected in (WRONG, TOO_FAR):
        assert small_records_wrong(payload, created)
    if what in ("usual", "null value", "no key", "a header", "a header without value", "five seconds earlier"):
        assert not small_records_wrong(payload, created)


def test_small_records_wrong_accepts_headers_as_clients_send_them() -> None:
    for size in (0, 1, 63, 64, 100, 8_191):
        for count in (1, 5, 32):
            each = record(headers=varint(count) + (b"\x0etraceid" + varint(size) + b"v" * size) * count)
            payload = bytes(61) + each
            assert not small_records_wrong(payload, header(1)._replace(length=len(payload) - 12)), (size, count)


def test_the_counted_records_must_fill_the_payload() -> None:
    payload = GOOD + NEXT
    for count, end in ((1, None), (3, None), (2, -1)):
        assert walk(payload[:end], 0, header(count), MANY).wrong is not None
    assert walk(payload + b"\0", 0, header(2), MANY).wrong is not None
    assert walk(b"--" + payload, 2, header(2), MANY) == Walked(MANY - 2)


def test_under_log_append_time_the_max_timestamp_of_the_header_is_checked() -> None:
    payload = record(time=varint(-(1 << 40)))
    fixed = header(1, LOG_APPEND_TIME, NOW, NOW + HOUR + 1)

    assert walk(payload, 0, fixed, MANY, False, TIMES).faults == ((0, NOW + HOUR + 1),)
    assert walk(payload, 0, fixed._replace(max_timestamp=NOW), MANY, False, TIMES).faults == ()
    assert walk(GOOD, 0, fixed, MANY, False, TIMES).faults == ((0, NOW + HOUR + 1),)


sizes = st.sampled_from([-3, -1, 0, 1, 30, 63, 64, 120, 8_191, 8_192])
numbers = st.sampled_from([varint, varint, varint, long])


@st.composite
def some_records(draw: Any) -> tuple[int, bytes]:
    count = draw(st.sampled_from([1, 2, 3, 70, 130]))
    kinds = draw(
        st.lists(
            st.tuples(sizes, sizes, numbers, st.integers(0, 3), st.sampled_from([0, 5, 70, 9_000, 1 << 21])),
            min_size=1,
            max_size=4,
        )
    )
    out = bytearray()
    for number in range(count):
        key, value, write, headers, time = kinds[number % len(kinds)]
        out += record(
            write(number),
            time=varint(time),
            key=write(key) + b"k" * key,
            value=write(value) + b"v" * value,
            headers=varint(headers) + (write(1) + b"h" + write(value) + b"v" * value) * headers,
        )
    return count, bytes(out)


@given(
    created=some_records(),
    at=st.integers(0),
    byte=st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF]),
    spoil=st.booleans(),
)
def test_the_fast_path_for_simple_records_gives_the_same_result(
    created: tuple[int, bytes], at: int, byte: int, spoil: bool
) -> None:
    """`_skip_simple_records` changes the number of steps only."""
    count, payload = created
    if spoil:
        changed = bytearray(payload)
        changed[at % len(changed)] = byte
        payload = bytes(changed)
    for keys_needed in (False, True):
        actual = walk(payload, 0, header(count), MANY, keys_needed, TIMES)
        usual = record_walk._skip_simple_records
        record_walk._skip_simple_records = lambda payload, pos, number, *_: (number, pos)
        try:
            slow = walk(payload, 0, header(count), MANY, keys_needed, TIMES)
        finally:
            record_walk._skip_simple_records = usual

        assert actual._replace(steps=0) == slow._replace(steps=0)
        assert spoil or actual.wrong is None
    view = walk(memoryview(payload), 0, header(count), MANY, True, TIMES)
    assert view == actual


@given(created=some_records())
def test_spans_are_the_records_without_their_headers(created: tuple[int, bytes]) -> None:
    count, payload = created
    read = list(read_records(header(count), payload))

    for buffer in (payload, bytearray(payload), memoryview(payload)):
        actual = list(spans(header(count), buffer))
        assert [span[:3] for span in actual] == [each[:3] for each in read]
        assert [span.is_tombstone for span in actual] == [each.value is None for each in read]
        assert b"".join(payload[span.start : span.stop] for span in actual) == payload
    fixed = header(count, LOG_APPEND_TIME, NOW, 5)
    assert {span.timestamp for span in spans(fixed, payload)} == {5}


@given(created=some_records(), at=st.integers(0), byte=st.integers(0, 255))
def test_spans_of_a_damaged_payload_lie_in_it_or_are_refused(created: tuple[int, bytes], at: int, byte: int) -> None:
    count, payload = created
    changed = bytearray(payload)
    changed[at % len(changed)] = byte
    try:
        actual = list(spans(header(count), changed))
    except DecodeError:
        return
    assert all(0 <= span.start < span.stop <= len(changed) and 0 <= span.offset < count for span in actual)


def test_an_int32_may_have_five_bytes_and_keeps_32_bits() -> None:
    for value in (0, -1, 1, 63, 64, -65, 8_191, 8_192, 2**31 - 1, -(2**31)):
        assert unzigzag32(varint(value) + b"x", 0) == (value, len(varint(value)))
        assert unzigzag32(b"x" + long(value), 1) == (value, 6)
    with pytest.raises(DecodeError):
        unzigzag32(b"\x80" * 5 + b"\0", 0)


def above_32_bits(value: int) -> bytes:
    """A varint in five bytes whose last has bits that do not belong to an int32, which Java drops."""
    encoded = bytearray(long(value))
    encoded[-1] |= 0x70
    return bytes(encoded)


@pytest.mark.parametrize("count", [1, 2, READ_MAX + 1])
@pytest.mark.parametrize("field", ["length", "offset", "key", "value", "headers"])
def test_all_readers_of_records_drop_the_bits_of_an_int32_above_32(field: str, count: int) -> None:
    given: dict[str, Any] = {
        "key": {"key": above_32_bits(1) + b"k"},
        "value": {"value": above_32_bits(1) + b"v"},
        "headers": {"headers": above_32_bits(0)},
    }.get(field, {})
    first = record(above_32_bits(0) if field == "offset" else 0, **given)
    if field == "length":
        first = above_32_bits(len(first) - 1) + first[1:]
    payload = first + b"".join(record(number) for number in range(1, count))
    batch = bytearray(HEADER_SIZE) + payload
    record_batches.HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD, 0, 2, 0, 0, count - 1, NOW, NOW, -1, -1, -1, count
    )
    seal(batch)
    head = read_header(batch)

    assert records_fill(batch, head)
    assert list(records_fill_in_steps(batch, head))[-1]
    assert [(each.offset, each.key, each.value) for each in read_records(head, payload)] == [
        (number, b"k", b"v") for number in range(count)
    ]
    assert [span.offset for span in spans(head, payload)] == list(range(count))
    walked = walk(payload, 0, head, MANY)
    assert (walked.wrong, walked.faults, walked.unread) == (None, (), False)


# --- cost of a walk

HEADER = b"\0\x01"
LONG_HEADER = long(0) * 2


def records(count: int, **fields: Any) -> tuple[int, bytes]:
    return count, b"".join(record(n, **fields) for n in range(count))


BOMBS: Final[dict[str, Callable[[], tuple[int, bytes]]]] = {
    "many headers": lambda: (1, record(headers=varint(100_000) + HEADER * 100_000)),
    "many long headers": lambda: (1, record(headers=varint(20_000) + LONG_HEADER * 20_000)),
    "records of many headers": lambda: records(500, headers=varint(200) + HEADER * 200),
    "many records": lambda: records(100_000),
    "many records of long numbers": lambda: (
        10_000,
        b"".join(record(long(n), key=long(0), value=long(0)) for n in range(10_000)),
    ),
    "many records without key": lambda: records(100_000, key=b"\x01"),
    "many late records": lambda: records(20_000, time=varint(1 << 40)),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_walk_reads_no_more_bytes_than_its_steps_allow(what: str) -> None:
    """A step covers at most a bounded number of bytes, for any kind of record and header."""
    count, payload = BOMBS[what]()

    class Counted(bytes):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looks += 1
            return bytes.__getitem__(self, at)

    for steps in (0, 1, 100, 5_000):
        Counted.looks = 0
        actual = walk(Counted(payload), 0, header(count), steps, True, TIMES)
        assert (actual.unread, actual.steps) == (True, 0)
        assert Counted.looks <= 12 * (steps + UNUSUAL_STEPS)
        assert len(actual.faults) <= FAULTS_MAX
    assert not walk(payload, 0, header(count), MANY, True, TIMES).unread


def test_a_long_header_is_more_steps_than_a_short_one() -> None:
    for what, headers, each in (("many headers", 100_000, 1), ("many long headers", 20_000, 9)):
        assert MANY - walk(BOMBS[what]()[1], 0, header(1), MANY).steps == headers * each + UNUSUAL_STEPS


def test_faults_that_were_found_before_the_steps_were_used_up_are_reported() -> None:
    payload = record(key=b"\x01") + record(1, headers=varint(1_000) + HEADER * 1_000)

    assert walk(payload, 0, header(2), 100, True, TIMES) == Walked(0, True, None, ((0, None),), None)
