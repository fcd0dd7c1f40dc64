"""Decode the record batches of a Fetch response as Arrow columns.

Batches are checked one by one; numpy and Arrow read the records of all batches of a response at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import HEADERS, Array, byte_strings, headers_at
from stuntbroker.pipeline.lock_step import Places, find_headers, find_records
from stuntbroker.protocol.batches.compression import FILE_SIZE_MAX, CompressionError, decompress
from stuntbroker.protocol.batches.records import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import Buffer

DECOMPRESSED_BYTES_MAX: Final = 1 << 24
"""Maximum decompressed bytes of batches opened together, unless a single one is larger."""
_MAGIC_AT: Final = 16
_length_of = Struct(">8xi").unpack_from


class BadBatch(ValueError):
    """An invalid batch: wrong CRC, records that do not match the header, or a format before version 2."""


class Batches(NamedTuple):
    """Complete batches in offset order."""

    data: bytes
    positions: Array
    headers: Array
    """Batch headers, with the fields of protocol.batches.records.BatchHeader."""

    @property
    def next_offset(self) -> int:
        """Offset after the last batch; there must be at least one."""
        last = self.headers[-1]
        return int(last["base_offset"]) + int(last["last_offset_delta"]) + 1

    def some(self, rows: Array) -> Batches:
        """Return some of the batches."""
        return Batches(self.data, self.positions[rows], self.headers[rows])


class Columns(NamedTuple):
    """Records as columns with one element per record."""

    offset: Array
    timestamp_ms: Array
    timestamp_type: Array
    """0 for CreateTime (set by the producer), 1 for LogAppendTime (set by the broker)."""
    key: pa.Array
    value: pa.Array
    headers: pa.Array | None
    """Column of type HEADERS, null for a record without headers; None if headers were not requested."""


def find_batches(records: Buffer) -> Batches:
    """Return the batches of a response, without a last batch that is cut off. Raises BadBatch for older formats."""
    data = bytes(records)
    positions, at, end = array("q"), 0, len(data)
    while at + LOG_OVERHEAD <= end:
        following = at + _length_of(data, at)[0] + LOG_OVERHEAD
        if following > end:
            break
        if following <= at + _MAGIC_AT or data[at + _MAGIC_AT] != 2 or following < at + HEADER_SIZE:
            raise BadBatch("messages of a format before version 2, or no messages: only record batches can be read")
        positions.append(at)
        at = following
    starts = np.frombuffer(positions, np.int64)
    return Batches(data, starts, headers_at(np.frombuffer(data, np.uint8), starts))


def aborted_rows(headers: Array, producer_ids: Sequence[int], first_offsets: Sequence[int]) -> Array:
    """Return a mask of the batches that belong to aborted transactions with these producer ids and first offsets.

    A transaction extends from its first offset to its producer's next marker. A batch is therefore aborted if and only if
    the last preceding event of its producer is the start of an aborted transaction and not a marker.
    """
    data_rows = np.flatnonzero((headers["attributes"] & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL)
    aborted = np.zeros(len(headers), bool)
    if not len(producer_ids) or not len(data_rows):
        return aborted
    marker_rows = np.flatnonzero(headers["attributes"] & CONTROL)
    beginnings, markers = len(producer_ids), len(marker_rows)
    producer = np.concatenate((producer_ids, headers["producer_id"][marker_rows], headers["producer_id"][data_rows]))
    offset = np.concatenate((first_offsets, headers["base_offset"][marker_rows], headers["base_offset"][data_rows]))
    kind = np.repeat([0, 1, 2], [beginnings, markers, len(data_rows)])
    order = np.lexsort((kind, offset, producer))
    # The last start or marker at or before each row in this order; ignored below if it is another producer's.
    places = np.arange(len(order))
    last = np.maximum.accumulate(np.where(kind[order] < 2, places, -1))
    event = order[np.maximum(last, 0)]
    begun = (last >= 0) & (kind[event] == 0) & (producer[event] == producer[order])
    hit = order[begun & (kind[order] == 2)]
    aborted[data_rows[hit - beginnings - markers]] = True
    return aborted


def decode(batches: Batches, with_headers: bool) -> Iterator[Columns]:
    """Decode the records of data batches (no control batches). Raises BadBatch."""
    _check_crcs(batches)
    codecs = batches.headers["attributes"] & CODEC_MASK
    if not len(codecs):
        return
    if not codecs.any():
        ends = batches.positions + batches.headers["length"] + LOG_OVERHEAD
        yield _columns(batches.data, batches.positions + HEADER_SIZE, ends, batches.headers, with_headers)
        return
    for rows, parts in _opened(batches):
        ends = np.cumsum([len(part) for part in parts])
        starts = np.concatenate(([0], ends[:-1]))
        yield _columns(b"".join(parts), starts, ends, batches.headers[rows], with_headers)


def _check_crcs(batches: Batches) -> None:
    view = memoryview(batches.data)
    ends = batches.positions + batches.headers["length"] + LOG_OVERHEAD
    crcs = batches.headers["crc"].tolist()
    for row, (at, end) in enumerate(zip(batches.positions.tolist(), ends.tolist(), strict=True)):
        if crc32c(view[at + CRC_FROM : end]) != crcs[row]:
            raise BadBatch(f"the batch at offset {int(batches.headers['base_offset'][row])} has a wrong CRC")


def _opened(batches: Batches) -> Iterator[tuple[list[int], list[Buffer]]]:
    """Yield (row numbers, their decompressed records), a group of batches at a time."""
    view = memoryview(batches.data)
    rows: list[int] = []
    parts: list[Buffer] = []
    size = 0
    for row, (at, header) in enumerate(zip(batches.positions.tolist(), batches.headers, strict=True)):
        part: Buffer = view[at + HEADER_SIZE : at + int(header["length"]) + LOG_OVERHEAD]
        if codec := int(header["attributes"]) & CODEC_MASK:
            try:
                part = decompress(codec, part, FILE_SIZE_MAX)
            except CompressionError as fault:
                raise BadBatch(f"the batch at offset {int(header['base_offset'])}: {fault}") from fault
        if rows and size + len(part) > DECOMPRESSED_BYTES_MAX:
            yield rows, parts
            rows, parts, size = [], [], 0
        rows.append(row)
        parts.append(part)
        size += len(part)
    yield rows, parts


def _columns(data: bytes, starts: Array, ends: Array, headers: Array, with_headers: bool) -> Columns:
    places, bad = find_records(data, starts, ends, headers["count"], headers["last_offset_delta"])
    if bad.any():
        raise _not_as_declared(headers[np.argmax(bad)])
    counts = headers["count"]
    buffer = pa.py_buffer(data)
    stamped = (headers["attributes"] & LOG_APPEND_TIME) != 0
    timestamps = np.repeat(headers["base_timestamp"], counts) + places.timestamp_delta
    if stamped.any():
        timestamps = np.where(np.repeat(stamped, counts), np.repeat(headers["max_timestamp"], counts), timestamps)
    built = None
    if with_headers:
        built = _headers(np.frombuffer(data, np.uint8), buffer, places)
        if isinstance(built, int):
            raise _not_as_declared(headers[places.batch[built]])
    return Columns(
        np.repeat(headers["base_offset"], counts) + places.offset_delta,
        timestamps,
        np.repeat(stamped.astype(np.int32), counts),
        byte_strings(buffer, places.key_at, places.key_size),
        byte_strings(buffer, places.value_at, places.value_size),
        built,
    )


def _not_as_declared(header: Any) -> BadBatch:
    return BadBatch(f"the records of the batch at offset {int(header['base_offset'])} are not as it declares them")


def _headers(view: Array, buffer: pa.Buffer, places: Places) -> pa.Array | int:
    """Return a column of type HEADERS, or the index of a record whose headers do not fit."""
    counts = places.header_count
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    record_headers, bad = find_headers(view, places.headers_at, places.stop, counts)
    if bad.any():
        return int(np.argmax(bad))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    keys = byte_strings(buffer, record_headers.key_at, record_headers.key_size)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:  # A key is not valid UTF-8.
        names = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays(
        [names, byte_strings(buffer, record_headers.value_at, record_headers.value_size)],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS, mask=pa.array(counts == 0))
