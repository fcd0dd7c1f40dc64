"""Decode the records of a segment as Arrow, without creating a Python object per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import HEADERS, Array, byte_strings, headers_at
from stuntbroker.pipeline.audit.folder import Segment
from stuntbroker.pipeline.audit.scan import as_record_batch, forget, map_file
from stuntbroker.pipeline.lock_step import Places, find_headers, find_records
from stuntbroker.protocol.batches.compression import FILE_SIZE_MAX, CompressionError, decompress
from stuntbroker.protocol.batches.records import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    read_records,
)
from stuntbroker.protocol.primitives import DecodeError

CHUNK_BYTES: Final = 1 << 24
"""Bytes of uncompressed records in memory at once, unless a single batch is larger."""

RECORDS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment_base_offset": pa.int64(),
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "is_transactional": pa.bool_(),
        "is_control": pa.bool_(),
    }
)


class Undecodable(NamedTuple):
    """A batch with a correct CRC whose records do not match its header: its writer was at fault."""

    position: int
    message: str


class Decoded(NamedTuple):
    """The records of some batches, and the batches that could not be decoded."""

    records: pa.RecordBatch
    """Rows of RECORDS in file order, including control records."""
    faults: tuple[Undecodable, ...]


class _Payloads(NamedTuple):
    """Batches whose uncompressed records are at data[start:end], one after the other."""

    data: Array
    starts: Array
    ends: Array
    headers: Array
    positions: Array


def decode_records(segment: Segment, batches: pa.RecordBatch, size_max: int = FILE_SIZE_MAX) -> Iterator[Decoded]:
    """Decode the records of `batches`, rows of BATCHES from `scan`, leaving out batches with a fault.

    A batch that decompresses to more than `size_max` bytes is reported as a fault.
    """
    positions = np.asarray(batches["position"])[np.asarray(batches["fault"].is_null())]
    if len(positions):
        data = map_file(segment.path)
        faults: list[Undecodable] = []
        for chunk in _chunks(data, positions, size_max, faults):
            decoded = _decode(segment, chunk)
            forget(data, int(chunk.positions[0]), int(chunk.positions[-1]) + HEADER_SIZE)
            yield Decoded(decoded.records, (*faults, *decoded.faults))
            faults.clear()
        if faults:
            yield Decoded(_no_records(), tuple(faults))


def _no_records() -> pa.RecordBatch:
    return pa.record_batch([pa.array([], field.type) for field in RECORDS], schema=RECORDS)


def _chunks(data: Array, positions: Array, size_max: int, faults: list[Undecodable]) -> Iterator[_Payloads]:
    headers = headers_at(data, positions)
    sizes = headers["length"].astype(np.int64) + LOG_OVERHEAD
    codecs = headers["attributes"] & CODEC_MASK
    first = 0
    while first < len(positions):
        here = int(np.searchsorted(np.cumsum(sizes[first:]), CHUNK_BYTES, side="right"))
        last = first + max(here, 1)
        if not codecs[first:last].any():
            base = int(positions[first])
            piece = data[base : int(positions[last - 1] + sizes[last - 1])]
            starts = positions[first:last] - base
            yield _Payloads(
                piece, starts + HEADER_SIZE, starts + sizes[first:last], headers[first:last], positions[first:last]
            )
        else:
            yield from _opened(data, positions[first:last], headers[first:last], size_max, faults)
        first = last


def _opened(
    data: Array, positions: Array, headers: Array, size_max: int, faults: list[Undecodable]
) -> Iterator[_Payloads]:
    """Decompress batches, and yield them in pieces of about CHUNK_BYTES."""
    parts: list[Any] = []
    rows: list[int] = []
    room = CHUNK_BYTES
    for row, (at, header) in enumerate(zip(positions.tolist(), headers, strict=True)):
        part: Any = data.data[at + HEADER_SIZE : at + int(header["length"]) + LOG_OVERHEAD]
        if codec := int(header["attributes"]) & CODEC_MASK:
            try:
                part = decompress(codec, part, size_max)
            except CompressionError as fault:
                faults.append(Undecodable(at, str(fault)))
                continue
        if room < len(part) and parts:
            yield _joined(parts, headers[rows], positions[rows])
            parts, rows, room = [], [], CHUNK_BYTES
        parts.append(part)
        rows.append(row)
        room -= len(part)
    if parts:
        yield _joined(parts, headers[rows], positions[rows])


def _joined(parts: list[Any], headers: Array, positions: Array) -> _Payloads:
    ends = np.cumsum([len(part) for part in parts])
    starts = np.concatenate(([0], ends[:-1]))
    return _Payloads(np.frombuffer(b"".join(parts), np.uint8), starts, ends, headers, positions)


def _decode(segment: Segment, chunk: _Payloads) -> Decoded:
    headers = chunk.headers
    counts, deltas = headers["count"].astype(np.int64), headers["last_offset_delta"].astype(np.int64)
    places, bad = find_records(chunk.data.data, chunk.starts, chunk.ends, counts, deltas)
    listed = np.flatnonzero((places.header_count > 0) & ~bad[places.batch])
    record_headers, wrong = find_headers(
        chunk.data, places.headers_at[listed], places.stop[listed], places.header_count[listed]
    )
    bad[places.batch[listed[wrong]]] = True
    if bad.any():
        keep = np.flatnonzero(~bad)
        faults = tuple(_fault(chunk, int(row)) for row in np.flatnonzero(bad))
        if not len(keep):
            return Decoded(_no_records(), faults)
        left = _decode(segment, _Payloads(chunk.data, *(part[keep] for part in chunk[1:])))
        return Decoded(left.records, faults)
    batch = places.batch
    buffer = pa.py_buffer(chunk.data)
    is_append_time = (headers["attributes"] & LOG_APPEND_TIME) != 0
    timestamps = headers["base_timestamp"][batch] + places.timestamp_delta
    attributes = headers["attributes"][batch]
    columns = {
        "topic": pa.repeat(segment.topic, len(batch)),
        "partition": pa.repeat(pa.scalar(segment.partition, pa.int32()), len(batch)),
        "segment_base_offset": pa.repeat(pa.scalar(segment.base_offset, pa.int64()), len(batch)),
        "offset": headers["base_offset"][batch] + places.offset_delta,
        "timestamp": np.where(is_append_time[batch], headers["max_timestamp"][batch], timestamps),
        "key": byte_strings(buffer, places.key_at, places.key_size),
        "value": byte_strings(buffer, places.value_at, places.value_size),
        "headers": _headers(buffer, places, record_headers),
        "producer_id": headers["producer_id"][batch],
        "producer_epoch": headers["producer_epoch"][batch],
        "is_transactional": (attributes & TRANSACTIONAL) != 0,
        "is_control": (attributes & CONTROL) != 0,
    }
    return Decoded(as_record_batch(columns, RECORDS), ())


def _headers(buffer: pa.Buffer, places: Places, record_headers: Any) -> pa.Array:
    offsets = np.zeros(len(places.batch) + 1, np.int32)
    np.cumsum(places.header_count, out=offsets[1:])
    keys = byte_strings(buffer, record_headers.key_at, record_headers.key_size)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:  # A key is not valid UTF-8.
        names = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    values = byte_strings(buffer, record_headers.value_at, record_headers.value_size)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS)


def _fault(chunk: _Payloads, row: int) -> Undecodable:
    """Read a bad batch record by record to get the error message."""
    header = BatchHeader(*chunk.headers[row].tolist())
    try:
        for _ in read_records(header, chunk.data.data[int(chunk.starts[row]) : int(chunk.ends[row])], headers_max=0):
            continue
    except DecodeError as fault:
        return Undecodable(int(chunk.positions[row]), str(fault))
    raise AssertionError(f"the batch at {chunk.positions[row]} is good, but was not read in lock step")
