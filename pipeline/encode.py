"""Encode Arrow columns as record batches, without Python code per record.

A record is `size | attributes, time, offset | key size | key | value size | value | headers`; one Arrow call joins these
columns for a whole batch. All sizes are zigzag varints. Small sizes and the offset deltas, which count up from 0, are
looked up in a table. The result is byte for byte that of `protocol.batches.records.build_batch` for the same records. The client
fills in producer id, epoch, sequence and CRC (`protocol.batches.records.stamp_producer`); the CRC is 0 until then.

Keys are partitioned as by Kafka's default partitioner: murmur2 of the key's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stuntbroker.protocol.batches.records import CODECS, HEADER, HEADER_SIZE, LOG_OVERHEAD, read_header

BATCH_BYTES_MAX: Final = 1_000_000
"""Maximum batch size in bytes, below Kafka's default limit (`max.message.bytes`, 1048588)."""
TABLE_SIZE: Final = 1 << 14
_OFFSET_SIZE_MAX: Final = 5
Ints = NDArray[np.int64]


class Encoded(NamedTuple):
    """A batch without producer id, epoch, sequence and CRC, and its number of records."""

    data: bytearray
    records: int


def varints(values: Ints) -> pa.BinaryArray:
    """Encode 64-bit integers as zigzag varints."""
    zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    sizes = _sizes_of(zigzag)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        low = (zigzag[rows] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        data[offsets[rows] + place] = np.where(sizes[rows] > place + 1, low | 0x80, low)
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sizes_of(zigzag: NDArray[np.uint64]) -> Ints:
    return 1 + np.searchsorted(_LIMITS, zigzag, side="right").astype(np.int64)


_LIMITS: Final = np.array([1 << 7 * n for n in range(1, 10)], np.uint64)
_TABLE: Final = varints(np.arange(-1, TABLE_SIZE))
"""Index 0 holds -1, the size of null."""
_TABLE_SIZES: Final = pc.binary_length(_TABLE).to_numpy().astype(np.int64)


def _varints(values: Ints) -> pa.BinaryArray:
    if len(values) and values.min() >= -1 and values.max() < TABLE_SIZE:
        return _TABLE.take(pa.array(values + 1))
    return varints(values)


def _varint_sizes(values: Ints) -> Ints:
    if len(values) and values.min() >= -1 and values.max() < TABLE_SIZE:
        return np.take(_TABLE_SIZES, values + 1)
    return _sizes_of(((values << 1) ^ (values >> 63)).astype(np.uint64))


def encode(
    key: pa.Array | None,
    value: pa.Array | None,
    timestamps_ms: pa.Array | int,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    headers: pa.Array | None = None,
) -> Iterator[Encoded]:
    """Yield the records as batches, in order, each of at most `batch_bytes_max` bytes unless it has a single record.

    Key and value columns are binary or strings; None means null in every record. Timestamps are milliseconds since 1970:
    one for all records, or a column of integers or Arrow timestamps without nulls. Headers are lists of structs of name
    and value.
    """
    count = len(key if key is not None else value if value is not None else ())
    if not count:
        return
    times = None if isinstance(timestamps_ms, int) else _times(timestamps_ms)
    key, value = _binary(key), _binary(value)
    key_sizes, value_sizes = _sizes(key, count), _sizes(value, count)
    heads = None if headers is None else header_bytes(headers)
    fixed_sizes = (
        (2 if heads is None else 1 + _sizes(heads, count))
        + _varint_sizes(key_sizes)
        + np.maximum(key_sizes, 0)
        + _varint_sizes(value_sizes)
        + np.maximum(value_sizes, 0)
    )
    # An upper bound for each record's size: its deltas depend on where its batch starts, which is not known yet.
    spread = (
        1
        if times is None
        else int(_varint_sizes(np.array([times.min() - times.max(), times.max() - times.min()])).max())
    )
    most = fixed_sizes + _OFFSET_SIZE_MAX + spread
    ends = np.cumsum(most + _varint_sizes(most))
    first = 0
    while first < count:
        used = int(ends[first - 1]) if first else 0
        stop = int(np.searchsorted(ends, used + batch_bytes_max - HEADER_SIZE, side="right"))
        stop = min(max(stop, first + 1), count)
        rows = slice(first, stop)
        yield _batch(
            None if key is None else key[rows],
            key_sizes[rows],
            None if value is None else value[rows],
            value_sizes[rows],
            fixed_sizes[rows],
            timestamps_ms if times is None else times[rows],
            b"\x00" if heads is None else heads[rows],
        )
        first = stop


def _batch(
    key: pa.Array | None,
    key_sizes: Ints,
    value: pa.Array | None,
    value_sizes: Ints,
    fixed_sizes: Ints,
    times: Any,
    heads: Any,
) -> Encoded:
    count = len(fixed_sizes)
    offsets = np.arange(count)
    if isinstance(times, int):
        base = latest = times
        head: Any = b"\x00\x00"
        sizes = fixed_sizes + 1 + _varint_sizes(offsets)
    else:
        base, latest = int(times[0]), int(times.max())
        deltas = times - base
        head = pc.binary_join_element_wise(b"\x00", _varints(deltas), b"")
        sizes = fixed_sizes + _varint_sizes(deltas) + _varint_sizes(offsets)
    offset_column = _TABLE[1 : count + 1] if count < TABLE_SIZE else varints(offsets)
    parts: list[Any] = [_varints(sizes), head, offset_column]
    for column, column_sizes in ((key, key_sizes), (value, value_sizes)):
        if column is None:
            parts.append(b"\x01")
        else:
            parts += [_varints(column_sizes), column]
    joined = pc.binary_join_element_wise(*parts, heads, b"", null_handling="replace", null_replacement=b"")
    data = bytearray(HEADER_SIZE)
    data += _bytes_of(joined)
    HEADER.pack_into(data, 0, 0, len(data) - LOG_OVERHEAD, 0, 2, 0, 0, count - 1, base, latest, -1, -1, -1, count)
    return Encoded(data, count)


def compressed(batch: bytearray, codec: str) -> bytearray:
    """Return a batch without CRC with its records compressed (gzip, snappy, lz4 or zstd); `none` returns it unchanged."""
    if codec == "none":
        return batch
    from aiokafka import codec as codecs

    data = batch[:HEADER_SIZE]
    data += getattr(codecs, f"{codec}_encode")(memoryview(batch)[HEADER_SIZE:].tobytes())
    header = read_header(data)._replace(length=len(data) - LOG_OVERHEAD, attributes=_CODECS[codec])
    HEADER.pack_into(data, 0, *header)
    return data


_CODECS: Final = {name: number for number, name in CODECS.items()}


def header_bytes(column: pa.Array) -> pa.BinaryArray:
    """Encode the headers of every row as in a record: their number, then the name and value of each.

    A null list means no headers. Raises ValueError for a header without a name.
    """
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = column.flatten()
    names, values = (_binary(texts) for texts in pairs.flatten())
    assert names is not None and values is not None
    if names.null_count:
        raise ValueError("a header has no name")
    parts = [_varints(_sizes(names, len(pairs))), names, _varints(_sizes(values, len(pairs))), values]
    each = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    _, offset_buffer, data = each.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(each) + 1, each.offset * 4)[ends].copy()
    rows = pa.BinaryArray.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(offsets), data])
    return pc.binary_join_element_wise(_varints(counts), rows, b"")


def _bytes_of(column: pa.BinaryArray) -> memoryview:
    """Return the concatenated values of a column, without copying."""
    _, offsets, data = column.buffers()
    at = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    return memoryview(data)[int(at[0]) : int(at[-1])]


def _binary(column: pa.Array | None) -> pa.Array | None:
    return column if column is None or column.type == pa.binary() else column.cast(pa.binary())


def _sizes(column: pa.Array | None, count: int) -> Ints:
    """Return the size in bytes of every value, -1 for null."""
    if column is None:
        return np.full(count, -1, np.int64)
    sizes: NDArray[np.int32] = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    return sizes.astype(np.int64)


def _times(column: pa.Array) -> Ints:
    if column.null_count:
        raise ValueError("a timestamp is null")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    times: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times


# --- partitions

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)


def murmur2(column: pa.Array) -> NDArray[np.uint32]:
    """Return Kafka's 32-bit hash of every value, computed for all values at once; null hashes like an empty value."""
    column = _binary(column.fill_null(b""))
    _, offset_buffer, data_buffer = column.buffers()
    starts = np.frombuffer(offset_buffer, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    data = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else np.zeros(1, np.uint8)
    )
    sizes = np.diff(starts)
    words = sizes >> 2
    hashes = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    for word in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > word)
        at = starts[:-1][rows] + 4 * word
        k = sum((data[at + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(4)), np.uint32(0)) * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        hashes[rows] = hashes[rows] * _M ^ k
    left = sizes & 3
    for byte in (2, 1, 0):
        rows = np.flatnonzero(left > byte)
        hashes[rows] ^= data[starts[:-1][rows] + 4 * words[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.flatnonzero(left)
    hashes[rows] *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    return hashes ^ (hashes >> np.uint32(15))


def partitions_of(
    key: pa.Array | None, count: int, partitions: int, chosen: pa.Array | None = None, sticky: int = 0
) -> Ints:
    """Return the partition of each of `count` rows.

    A row goes to its partition in `chosen` unless that is null, else to the partition of its key. Rows without a key all go
    to partition `sticky` modulo `partitions`; callers change `sticky` between calls. Raises ValueError for a partition that
    does not exist.
    """
    result = np.full(count, sticky % partitions, np.int64)
    if key is not None:
        has_key = key.is_valid().to_numpy(zero_copy_only=False)
        by_key = (murmur2(key) & np.uint32(0x7FFF_FFFF)).astype(np.int64) % partitions
        result = np.where(has_key, by_key, result)
    if chosen is not None:
        wanted = chosen.cast(pa.int64())
        numbers = wanted.fill_null(0).to_numpy(zero_copy_only=False)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < partitions):
            wrong = numbers.min() if numbers.min() < 0 else numbers.max()
            raise ValueError(f"partition {wrong} is not in 0..{partitions - 1}")
        result = np.where(wanted.is_valid().to_numpy(zero_copy_only=False), numbers, result)
    return result
