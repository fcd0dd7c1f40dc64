"""Finding record starts in parallel lanes gives the same result as reading records one after the other."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stuntbroker.pipeline import lock_step, record_starts
from stuntbroker.pipeline.decode import BadBatch, decode, find_batches
from stuntbroker.pipeline.lock_step import find_records
from stuntbroker.protocol.batches.records import HEADER, HEADER_SIZE, LOG_OVERHEAD, seal, unzigzag, zigzag
from stuntbroker.protocol.primitives import DecodeError

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]
"""(attributes, offset delta, key, value, headers)."""


def sized(data: bytes | None) -> bytes:
    out = bytearray()
    zigzag(out, -1 if data is None else len(data))
    return bytes(out + (data or b""))


def number(value: int) -> bytes:
    out = bytearray()
    zigzag(out, value)
    return bytes(out)


def record(row: Row, delta_ms: int = 0) -> bytes:
    attributes, offset_delta, key, value, headers = row
    body = bytes([attributes]) + number(delta_ms) + number(offset_delta) + sized(key) + sized(value)
    return sized(body + number(len(headers)) + b"".join(sized(name) + sized(each) for name, each in headers))


def chain(rows: list[Row]) -> bytes:
    return b"".join(record(row, at % 300) for at, row in enumerate(rows))


class Payloads:
    """Payloads of batches, with zero bytes between them in place of the batch headers."""

    def __init__(self, between: int = HEADER_SIZE) -> None:
        self.data = bytearray()
        self.between = between
        self.batches: list[list[int]] = []

    def add(self, payload: bytes, count: int, last_delta: int) -> None:
        self.data += b"\x00" * self.between
        self.batches.append([len(self.data), len(self.data) + len(payload), count, last_delta])
        self.data += payload

    def arrays(self) -> list[Any]:
        columns = np.array(self.batches, np.int64).reshape(-1, 4).T
        return [columns[0], columns[1], columns[2].astype(np.int32), columns[3].astype(np.int32)]


def one_after_the_other(data: bytes, start: int, end: int, count: int, last_delta: int) -> list[int] | None:
    """Return the positions of the records; None if the records contradict the batch header."""
    actual, at = [], start
    try:
        while at < end and len(actual) <= count:
            actual.append(at)
            size, at = unzigzag(data, at)
            stop = at + size
            _, at = unzigzag(data, at + 1)
            delta, at = unzigzag(data, at)
            for _ in range(2):
                field, at = unzigzag(data, at)
                at += max(field, 0)
            headers, at = unzigzag(data, at)
            fit = headers >= 0 and headers <= stop - at and (headers > 0 or at == stop)
            if size < 0 or not fit or not 0 <= delta <= last_delta:
                return None
            at = stop
    except (IndexError, DecodeError):
        return None
    return actual if at == end and len(actual) == count else None


@contextmanager
def lanes(records_min: int = 1, lanes_min: int = 1, block: int = 1 << 20) -> Iterator[None]:
    """Lower the limits, so that few records and few lanes are enough for reading in lanes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_starts, "GUESS_RECORDS_MIN", records_min)
        patch.setattr(record_starts, "LANES_MIN", lanes_min)
        patch.setattr(record_starts, "_LANE", 1.0)
        patch.setattr(lock_step, "BLOCK_RECORDS", block)
        yield


def check(payloads: Payloads) -> None:
    data = bytes(payloads.data)
    expected = [one_after_the_other(data, *batch) for batch in payloads.batches]
    places, bad = find_records(data, *payloads.arrays())
    starts, not_there = record_starts.find_starts(data, *payloads.arrays())

    assert bad.tolist() == [each is None for each in expected]
    assert not (not_there & ~bad).any()
    assert (np.diff(starts) > 0).all()
    good = ~bad[places.batch]
    batch = np.repeat(np.arange(len(bad)), np.where(not_there, 0, payloads.arrays()[2]))
    assert starts[~bad[batch]].tolist() == [at for each in expected for at in each or ()]
    ends = [end for each, row in zip(expected, payloads.batches, strict=True) if each for end in (*each[1:], row[1])]
    assert places.stop[good].tolist() == ends


fields = st.none() | st.binary(max_size=5) | st.sampled_from([b"v" * 55, b"v" * 70, bytes(64), b"\x00\x02" * 40])
large = st.sampled_from([b"w" * 9_000, bytes(8_180), b"x" * 8_186])
inner = st.integers(1, 9).map(lambda count: chain([(0, at, None, b"in", []) for at in range(count)]))
"""Values that look like the records of a batch."""
headers = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
row = st.tuples(
    st.sampled_from([0, 0, 0, 0, 7]),
    st.sampled_from([1, 1, 1, 1, 3, 70]),
    fields,
    fields | fields | inner | large,
    st.just([]) | headers,
)


@st.composite
def payload(draw: st.DrawFn) -> tuple[bytes, int, int]:
    kinds = draw(st.lists(row, max_size=12))
    rows: list[Row] = []
    delta = -1
    for repeat in range(draw(st.sampled_from([1, 1, 2, 9]))):
        for attributes, step, key, value, some in kinds:
            delta += step if repeat % 2 else 1
            rows.append((attributes, delta, key, value, some))
    return chain(rows), len(rows), max(delta, 0) + draw(st.sampled_from([0, 0, 5]))


how = st.tuples(st.sampled_from([1, 1, 3, 30]), st.sampled_from([1, 4, 1 << 20]))


@settings(deadline=None, max_examples=150)
@given(st.lists(payload(), max_size=5), st.sampled_from([0, HEADER_SIZE]), how)
def test_all_record_starts_are_found_regardless_of_the_guesses(
    batches: list[Any], between: int, how: tuple[int, int]
) -> None:
    payloads = Payloads(between)
    for each in batches:
        payloads.add(*each)
    with lanes(lanes_min=how[0], block=how[1]):
        check(payloads)


lies = st.sampled_from([0, 0, 1, -1, -10, 100, 2**31 - 2000, -(2**31) + 2000])


@settings(deadline=None, max_examples=150)
@given(
    st.lists(payload(), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    lies,
    st.integers(0, 8),
    how,
)
def test_records_that_are_not_as_declared_make_their_batch_bad_and_no_other(
    batches: list[Any], changes: list[tuple[int, int]], lie: int, cut: int, how: tuple[int, int]
) -> None:
    payloads = Payloads()
    for data, count, last_delta in batches:
        payloads.add(data, count, last_delta)
    payloads.batches[-1][2] += lie
    payloads.batches[0][1] -= min(cut, len(batches[0][0]))
    for place, byte in changes:
        payloads.data[place % len(payloads.data)] = byte
    with lanes(lanes_min=how[0], block=how[1]):
        check(payloads)


@settings(deadline=None, max_examples=150)
@given(st.binary(min_size=20, max_size=400), st.integers(1, 60), st.integers(0, 100), st.integers(1, 9))
@example(bytes(300), 40, 100, 1)
@example(b"\x0c" + bytes(299), 42, 100, 3)
@example(b"\x80" * 300, 40, 100, 3)
@example(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 20, 20, 100, 3)
def test_bytes_that_are_no_records_are_bad_batches(data: bytes, count: int, last_delta: int, parts: int) -> None:
    payloads = Payloads(between=0)
    for part in range(0, len(data), len(data) // parts):
        payloads.add(data[part : part + len(data) // parts], count, last_delta)
    with lanes():
        check(payloads)


HUGE = number(2**63 - 1)


@pytest.mark.parametrize("body", [HUGE + b"\x01\x00", b"\x01" + HUGE + b"\x00", HUGE + HUGE + b"\x00"])
def test_fields_longer_than_the_data_do_not_wrap_around(body: bytes) -> None:
    payloads = Payloads(between=0)
    payloads.add(record((0, 0, None, b"v" * 9, [])), 1, 0)
    payloads.add(sized(b"\x00\x00\x00" + body), 1, 0)

    check(payloads)


# --- large batches, with the limits as they are

random_bytes = random.Random(7)


def text(size: int) -> bytes:
    return bytes(random_bytes.choices(b"abcdefghij klmnop", k=random_bytes.randint(size // 2, size * 3 // 2)))


def rows_of(
    count: int, value: Callable[[], bytes], step: int = 1, keyed: bool = False, headed: bool = False
) -> list[Row]:
    return [
        (0, at * step, b"key-%d" % at if keyed else None, value(), [(b"trace", random_bytes.randbytes(8))] * headed)
        for at in range(count)
    ]


def ints() -> bytes:
    return b"".join(struct.pack(">q", random_bytes.randrange(1000)) for _ in range(random_bytes.randint(4, 16)))


def of_any_size() -> bytes:
    return text(40) if random_bytes.random() < 0.9 else text(1_500)


KINDS: dict[str, Callable[[], list[Row]]] = {
    "text": lambda: rows_of(6_000, lambda: text(60)),
    "small": lambda: rows_of(6_000, lambda: text(8)),
    "large": lambda: rows_of(4_000, lambda: text(300)),
    "random bytes": lambda: rows_of(6_000, lambda: random_bytes.randbytes(random_bytes.randint(30, 90))),
    "numbers, mostly zeros": lambda: rows_of(6_000, ints),
    "keys": lambda: rows_of(6_000, lambda: text(60), keyed=True),
    "headers": lambda: rows_of(6_000, lambda: text(60), headed=True),
    "gaps": lambda: rows_of(6_000, lambda: text(60), step=3),
    "sizes far apart": lambda: rows_of(6_000, of_any_size),
    "some very large": lambda: rows_of(6_000, lambda: text(20) if random_bytes.random() < 0.97 else text(4_000)),
    "records in values": lambda: rows_of(4_000, lambda: chain(rows_of(random_bytes.randint(2, 5), lambda: b"inner"))),
}


class Work:
    """Counts the records read one by one and in lanes, including those that a lane reads past its end."""

    def __init__(self, payloads: Payloads) -> None:
        self.one_by_one = self.in_lanes = 0
        walk, stepped = record_starts._walk, record_starts._stepped

        def counted_walk(data: Any, at: int, end: int, count_max: int, actual: Any) -> int:
            before = len(actual)
            behind = walk(data, at, end, count_max, actual)
            self.one_by_one += len(actual) - before
            return behind

        def counted_steps(*arguments: Any) -> Any:
            rows = stepped(*arguments)
            self.in_lanes += rows.size
            return rows

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_starts, "_walk", counted_walk)
            patch.setattr(record_starts, "_stepped", counted_steps)
            record_starts.find_starts(bytes(payloads.data), *payloads.arrays())


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_most_records_of_a_large_batch_are_read_in_lanes_and_few_twice(make: Callable[[], list[Row]]) -> None:
    random_bytes.seed(11)
    rows = make()
    payloads = Payloads()
    for part in (rows[:1], rows[1:]):
        first = part[0][1]
        shifted = [(each[0], each[1] - first, *each[2:]) for each in part]
        payloads.add(chain(shifted), len(shifted), shifted[-1][1])
    check(payloads)
    work = Work(payloads)
    chains = 2 if make is KINDS["records in values"] else 1

    assert work.one_by_one <= len(rows) // 7
    assert work.in_lanes <= 1.5 * chains * len(rows)


WRONG_SIZES = [b"", number(-9_000), number(-(2**20) + 1), b"\xff\xff\xff"]


def test_records_of_many_kibibytes_are_found_in_lanes_of_batches() -> None:
    """The sizes take three bytes each. Only batches that contain a wrong size are reported as bad."""
    payloads = Payloads()
    for at in range(100):
        rows = [record((0, delta, None, bytes(9_000), [])) for delta in range(12)]
        wrong = WRONG_SIZES[at % 4 if at < 12 else 0]
        rows[at % 12] = wrong + rows[at % 12][len(wrong) :]
        payloads.add(b"".join(rows), 12, 11)
    check(payloads)
    work = Work(payloads)

    assert work.one_by_one == 0
    assert work.in_lanes <= 4 * 1_200


@pytest.mark.parametrize("count", [1, 2**31 - 1])
def test_no_more_is_read_of_a_batch_than_it_counts(count: int) -> None:
    payloads = Payloads()
    payloads.add(chain(ROWS), count, 3_999)
    check(payloads)

    assert Work(payloads).one_by_one <= min(count, 4_000)


def woven(count: int, strands: int) -> bytes:
    """Return records whose values contain `strands` false chains of records, each as plausible as the real chain."""

    def single(at: int, value: bytes) -> bytes:
        return record((0, 100 + at, None, value, []))

    size = len(single(0, bytes(20 * strands)))
    (begin,) = [number(size - taken) for taken in (1, 2) if len(number(size - taken)) == taken]
    remaining = b"\x01" * 20
    return b"".join(
        single(at, (begin + b"\x00\x00" + number(100 + at) + remaining)[:20] * strands) for at in range(count)
    )


@pytest.mark.parametrize("strands", [1, 3, 7, 12])
def test_values_that_are_made_to_look_like_records_cost_a_bounded_number_of_chains(strands: int) -> None:
    payloads = Payloads()
    payloads.add(woven(6_000, strands), 6_000, 6_099)
    check(payloads)
    work = Work(payloads)
    given_up = strands + 1 > record_starts.CANDIDATES_MAX

    assert (work.one_by_one <= 600) is not given_up
    assert work.in_lanes <= (0 if given_up else 2 * (strands + 1) * 6_000)


def test_records_with_attributes_are_read_correctly() -> None:
    """Kafka defines no record attributes yet; records that have some are only slower to read."""
    rows = [(at % 3, *row[1:]) for at, row in enumerate(rows_of(6_000, lambda: text(60)))]
    payloads = Payloads()
    payloads.add(chain(rows), 6_000, 5_999)

    check(payloads)


def batch_at(base_offset: int, rows: list[Row], count: int | None = None) -> bytearray:
    payload = chain(rows)
    data = bytearray(HEADER_SIZE) + payload
    last_delta, count = rows[-1][1], len(rows) if count is None else count
    HEADER.pack_into(data, 0, base_offset, len(data) - LOG_OVERHEAD, 0, 2, 0, 0, last_delta, 0, 0, -1, -1, -1, count)
    seal(data)
    return data


def shorter(batch: bytearray) -> bytearray:
    del batch[-1]
    struct.pack_into(">i", batch, 8, len(batch) - LOG_OVERHEAD)
    return batch


def with_byte(batch: bytearray, place: float, byte: int) -> bytearray:
    rows = one_after_the_other(batch, HEADER_SIZE, len(batch), 4_000, 3_999)
    assert rows is not None
    batch[rows[int(place * 4_000)]] = byte
    return batch


ROWS = rows_of(4_000, lambda: text(60))
BROKEN: dict[str, Callable[[], bytearray]] = {
    "a record less than it counts": lambda: batch_at(4_000, ROWS, 4_001),
    "a record more than it counts": lambda: batch_at(4_000, ROWS, 3_999),
    "as many as fit in no batch": lambda: batch_at(4_000, ROWS, 2**31 - 1),
    "none": lambda: batch_at(4_000, ROWS, 0),
    "a negative number": lambda: batch_at(4_000, ROWS, -1),
    "cut off": lambda: shorter(batch_at(4_000, ROWS)),
    "the first is too large": lambda: with_byte(batch_at(4_000, ROWS), 0, 0xFF),
    "one in the middle is too small": lambda: with_byte(batch_at(4_000, ROWS), 0.5, 0x02),
    "one in the middle is negative": lambda: with_byte(batch_at(4_000, ROWS), 0.5, 0x21),
    "the last is one larger": lambda: with_byte(batch_at(4_000, ROWS), 3_999 / 4_000, 0x7E),
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_of_large_batches_the_one_that_is_bad_is_reported(make: Callable[[], bytearray]) -> None:
    bad = make()
    seal(bad)
    data = bytes(batch_at(0, ROWS) + bad + batch_at(8_000, ROWS) + bad)

    with pytest.raises(BadBatch, match="batch at offset 4000 are not as it declares"):
        list(decode(find_batches(data), True))


def test_of_several_bad_batches_the_first_is_reported() -> None:
    """Whatever is wrong with it: here an offset, which is looked at later than where records end."""
    wrong = [(0, 9, None, b"v", []), (0, 1, None, b"v", [])]
    data = bytes(batch_at(0, ROWS) + batch_at(4_000, wrong) + batch_at(8_000, ROWS, 1))

    with pytest.raises(BadBatch, match="batch at offset 4000 are not as it declares"):
        list(decode(find_batches(data), True))
