"""Arrow columns become the batches that the record-by-record builder makes, byte for byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as other
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.pipeline.encode import (
    TABLE_SIZE,
    Encoded,
    compressed,
    encode,
    murmur2,
    partitions_of,
    varints,
)
from stuntbroker.protocol.batches.records import (
    CODECS,
    HEADER_SIZE,
    build_batch,
    crc_of,
    read_header,
    read_records,
    seal,
    zigzag,
)

NOW_MS = 1_700_000_000_000
LONG = st.sampled_from([0, 1, 63, 64, 127, 8_191, 8_192, TABLE_SIZE - 1, TABLE_SIZE, 20_000])
FIELD = st.one_of(st.none(), st.binary(max_size=80), LONG.map(lambda size: b"x" * size))
PAIRS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=150)
Pair = tuple[bytes | None, bytes | None]


def columns(pairs: list[Pair]) -> tuple[pa.Array, pa.Array]:
    keys, values = zip(*pairs, strict=True)
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def sealed(encoded: Encoded) -> bytes:
    seal(encoded.data)
    return bytes(encoded.data)


def records_of(encoded: Encoded) -> list[tuple[int, int, bytes | None, bytes | None]]:
    header = read_header(encoded.data)
    return [
        (each.offset, each.timestamp, each.key, each.value) for each in read_records(header, encoded.data, HEADER_SIZE)
    ]


@settings(max_examples=200, deadline=None)
@given(PAIRS)
def test_a_batch_is_what_the_builder_makes_of_the_same_records(pairs: list[Pair]) -> None:
    (encoded,) = encode(*columns(pairs), NOW_MS, batch_bytes_max=1 << 30)

    assert encoded.records == len(pairs)
    assert sealed(encoded) == build_batch(pairs, NOW_MS)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_192, TABLE_SIZE - 1, TABLE_SIZE, TABLE_SIZE + 1, 40_000])
def test_batches_with_any_number_of_records_are_encoded_correctly(count: int) -> None:
    pairs: list[Pair] = [(b"k", b"%d" % number) for number in range(count)]
    (encoded,) = encode(*columns(pairs), NOW_MS, batch_bytes_max=1 << 30)

    assert sealed(encoded) == build_batch(pairs, NOW_MS)


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.integers(62, 3_000))
def test_batches_keep_to_their_size_and_lose_nothing(pairs: list[Pair], most: int) -> None:
    created = list(encode(*columns(pairs), NOW_MS, batch_bytes_max=most))

    assert [(key, value) for each in created for _, _, key, value in records_of(each)] == pairs
    assert all(len(each.data) <= most or each.records == 1 for each in created)
    first = 0
    for each in created:
        assert sealed(each) == build_batch(pairs[first : first + each.records], NOW_MS)
        first += each.records


def test_small_records_fill_their_batches() -> None:
    """The estimate of a record's size is only a few bytes too high."""
    created = list(encode(*columns([(b"k", b"x" * 100)] * 50_000), NOW_MS, batch_bytes_max=1_000_000))

    assert all(len(each.data) > 950_000 for each in created[:-1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=50), st.integers(100, 2_000))
def test_every_record_may_have_its_own_time(times: list[int], most: int) -> None:
    values = pa.array([b"%d" % number for number in range(len(times))])
    created = list(encode(None, values, pa.array(times, pa.int64()), batch_bytes_max=most))

    assert [time for each in created for _, time, _, _ in records_of(each)] == times
    assert all(len(each.data) <= most or each.records == 1 for each in created)
    for each in created:
        header, own = read_header(each.data), [time for _, time, _, _ in records_of(each)]
        assert (header.base_timestamp, header.max_timestamp) == (own[0], max(own))


def test_a_time_may_be_a_timestamp_of_any_unit() -> None:
    for unit, factor in (("s", 1), ("ms", 1_000), ("us", 10**6), ("ns", 10**9)):
        times = pa.array([5 * factor, 7 * factor], pa.timestamp(unit, "UTC"))
        (encoded,) = encode(None, pa.array([b"a", b"b"]), times)
        assert [time for _, time, _, _ in records_of(encoded)] == [5_000, 7_000]
    with pytest.raises(ValueError, match="a timestamp is null"):
        list(encode(None, pa.array([b"a"]), pa.array([None], pa.int64())))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()])
def test_columns_may_be_strings_and_slices_of_longer_ones(kind: pa.DataType) -> None:
    texts = ["zero", None, "two", "", "four", "fünf"]
    column = pa.array(texts).cast(kind)[1:5]
    (encoded,) = encode(column, column, NOW_MS)

    expected = [None if text is None else text.encode() for text in texts[1:5]]
    assert sealed(encoded) == build_batch([(each, each) for each in expected], NOW_MS)


def test_a_column_that_is_not_there_is_null() -> None:
    assert [sealed(each) for each in encode(None, pa.array([b"a", None]), NOW_MS)] == [
        bytes(build_batch([(None, b"a"), (None, None)], NOW_MS))
    ]
    assert [sealed(each) for each in encode(pa.array([b"a"]), None, NOW_MS)] == [
        bytes(build_batch([(b"a", None)], NOW_MS))
    ]
    assert list(encode(pa.array([], pa.binary()), pa.array([], pa.binary()), NOW_MS)) == []
    assert list(encode(None, None, NOW_MS)) == []


def test_a_batch_lacks_its_crc_until_it_is_stamped() -> None:
    (encoded,) = encode(None, pa.array([b"a"]), NOW_MS)
    assert read_header(encoded.data).crc == 0
    assert read_header(sealed(encoded)).crc == crc_of(encoded.data)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_varints_of_any_number(values: list[int]) -> None:
    expected = []
    for value in values:
        out = bytearray()
        zigzag(out, value)
        expected.append(bytes(out))

    assert varints(np.array(values, np.int64)).to_pylist() == expected


# --- headers

HEADERS = st.one_of(
    st.none(), st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=4)
)
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Headers = list[tuple[str, bytes | None]] | None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(FIELD, HEADERS), min_size=1, max_size=40), st.integers(0, 3))
def test_encoded_headers_equal_those_of_aiokafka(actual: list[tuple[bytes | None, Headers]], skipped: int) -> None:
    """Also for a slice of a longer column, whose buffers start at an offset."""
    values, headers = (list(each) for each in zip(*actual, strict=True))
    column = pa.array([[("?", b"!")]] * skipped + headers, HEADER_TYPE)[skipped:]
    (encoded,) = encode(None, pa.array(values, pa.binary()), NOW_MS, 1 << 30, column)

    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    for offset, (value, some) in enumerate(actual):
        builder.append(offset, NOW_MS, None, value, some or [])
    expected = bytes(builder.build())
    assert sealed(encoded)[HEADER_SIZE:] == expected[HEADER_SIZE:]
    assert read_header(sealed(encoded)).size == len(expected)


def test_batches_with_headers_keep_to_their_size() -> None:
    headers = pa.array([[("name", b"x" * (number % 700))] * (number % 3) for number in range(2_000)], HEADER_TYPE)
    created = list(encode(None, pa.array([b"%d" % number for number in range(2_000)]), NOW_MS, 10_000, headers))

    assert all(8_000 < len(each.data) <= 10_000 for each in created[:-1])
    actual = [row for each in created for row in read_records(read_header(each.data), each.data, HEADER_SIZE)]
    assert [list(row.headers) for row in actual] == [
        [tuple(pair.values()) for pair in row] for row in headers.to_pylist()
    ]


def test_a_header_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a header has no name"):
        list(encode(None, pa.array([b"a"]), NOW_MS, headers=pa.array([[(None, b"x")]], HEADER_TYPE)))


@pytest.mark.parametrize("codec", CODECS.values())
def test_records_may_be_compressed(codec: str) -> None:
    """aiokafka can read the compressed batch."""
    (encoded,) = encode(pa.array([b"k"] * 500), pa.array([b"x" * 100] * 500), NOW_MS)
    data = compressed(encoded.data, codec)
    seal(data)

    assert (len(data) < len(encoded.data) // 4) == (codec != "none")
    batch = MemoryRecords(bytes(data)).next_batch()
    assert batch is not None and batch.validate_crc()
    assert [(each.offset, each.key, each.value) for each in batch] == [(at, b"k", b"x" * 100) for at in range(500)]


# --- partitions

HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Key -> result of Apache Kafka's Utils.murmur2, as a signed 32-bit number."""


def test_the_hash_of_a_key_is_kafkas() -> None:
    actual = murmur2(pa.array(list(HASHES)))

    assert actual.astype(np.int32).tolist() == list(HASHES.values())
    assert murmur2(pa.array([b"?", *HASHES, b"!"])[1:-1]).tolist() == actual.tolist()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60), st.integers(1, 100))
def test_the_partition_of_a_key_is_that_of_other_clients(keys: list[bytes], partitions: int) -> None:
    """aiokafka's default partitioner is an independent implementation of Apache Kafka's."""
    expected = [(other(key) & 0x7FFF_FFFF) % partitions for key in keys]
    assert partitions_of(pa.array(keys, pa.binary()), len(keys), partitions).tolist() == expected


def test_rows_without_a_key_stay_together_and_a_chosen_partition_wins() -> None:
    keys = pa.array([b"foobar", None, b"foobar", None, None])
    by_key = (HASHES[b"foobar"] & 0x7FFF_FFFF) % 7

    assert partitions_of(keys, 5, 7, sticky=9).tolist() == [by_key, 2, by_key, 2, 2]
    assert partitions_of(None, 3, 7, sticky=13).tolist() == [6, 6, 6]
    chosen = pa.array([6, 5, None, None, 0], pa.int32())
    assert partitions_of(keys, 5, 7, chosen, sticky=1).tolist() == [6, 5, by_key, 1, 0]
    assert partitions_of(pa.array([], pa.binary()), 0, 7, pa.array([], pa.int32())).tolist() == []


@pytest.mark.parametrize("wrong", [-1, 7, 2**31 - 1])
def test_a_partition_that_is_not_there_is_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"partition {wrong} is not in 0..6"):
        partitions_of(None, 2, 7, pa.array([0, wrong], pa.int32()))
