"""Read the batch headers of a segment as Arrow and check every CRC, without decoding records.

An invalid piece gets a row with only its position, size and `fault`:

| fault | meaning | where it is not an error |
|---|---|---|
| corrupt | a wrong CRC (the row has the header's fields), or bytes that are no batch, up to the next valid batch | |
| format | a message of the formats before version 2, without producers and transactions | |
| torn | the file ends within a batch | at the end of an active segment: it was never acknowledged |
| zeros | only zeros up to the end of the file | as torn |
| segment_deleted | the file was deleted after the folder was listed | always: a broker is running |
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import Array, headers_at
from stuntbroker.pipeline.audit.folder import Segment
from stuntbroker.protocol.batches.records import (
    CODEC_MASK,
    CODECS,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    EndMarker,
    marker_of,
    read_header,
    read_records,
)
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import DecodeError

ROWS_MAX: Final = 65_536
"""Maximum batches that are checked together."""
BYTES_MAX: Final = 1 << 26
"""Bytes of a file in memory at once, unless a single batch is larger."""
FAULTS: Final = ("corrupt", "format", "torn", "zeros", "segment_deleted")
END_FAULTS: Final = ("torn", "zeros")
_WINDOW: Final = 1 << 20
_LENGTH_MIN: Final = 14
"""Minimum value of the length field, in the oldest format."""
_MARKER_SIZE: Final = 78
_length_of = Struct(">8xi").unpack_from

BATCHES: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment_base_offset": pa.int64(),
        "position": pa.int64(),
        "size": pa.int64(),
        "fault": pa.string(),
        "crc_ok": pa.bool_(),
        "base_offset": pa.int64(),
        "last_offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "attributes": pa.int16(),
        "compression": pa.string(),
        "base_timestamp": pa.int64(),
        "max_timestamp": pa.int64(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "base_sequence": pa.int32(),
        "count": pa.int32(),
        "is_transactional": pa.bool_(),
        "is_control": pa.bool_(),
        "marker": pa.string(),
        "coordinator_epoch": pa.int32(),
    }
)
"""`marker` is commit, abort or none; `coordinator_epoch` is -1 where there is no marker. Timestamps in milliseconds."""
MARKERS: Final = ("none", "abort", "commit")


def map_file(path: str) -> Array:
    """Map a file into memory; its bytes are read on access."""
    with open(path, "rb") as file:
        if not file.seek(0, 2):
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def forget(data: Array, start: int, stop: int) -> None:
    """Release the memory of a range of a mapped file; a later access reads the file again."""
    view = data.base
    file = view.obj if isinstance(view, memoryview) else None
    if isinstance(file, mmap.mmap):
        start -= start % mmap.PAGESIZE
        file.madvise(mmap.MADV_DONTNEED, start, stop - start)


def scan(segment: Segment, rows_max: int = ROWS_MAX) -> Iterator[pa.RecordBatch]:
    """Yield rows of BATCHES in file order, at most `rows_max` at a time."""
    try:
        data = map_file(segment.path)
    except FileNotFoundError:
        yield deleted_segment(segment)
        return
    position, next_offset = 0, segment.base_offset
    while position < len(data):
        walked, stop, is_broken = _walk(data, position, rows_max)
        positions = np.array(walked, np.int64)
        headers = headers_at(data, positions)
        good = _good(data, positions, headers)
        old = _old(data, positions, headers)
        lost = _first_lost(data, good | old, stop)
        if lost < len(good):
            stop = walked[lost]
        if lost:
            yield _rows(segment, data, positions[:lost], headers[:lost], good[:lost], old[:lost], stop == len(data))
            next_offset = int(headers["base_offset"][lost - 1]) + 1
        if lost < len(good) or is_broken:
            following = _next_valid(data, stop + 1, next_offset)
            fault = "corrupt" if following < len(data) else _end_fault(segment, data, stop)
            yield _fault_row(segment, stop, following - stop, fault)
            stop = following
        forget(data, position, stop)
        position = stop


def _walk(data: Array, position: int, rows_max: int) -> tuple[list[int], int, bool]:
    """Follow the length fields; return (positions of batches, where they end, whether no batch can follow there)."""
    end = len(data)
    view = data.data
    positions: list[int] = []
    soft_end = min(position + BYTES_MAX, end)
    while len(positions) < rows_max and position < soft_end and position + HEADER_SIZE <= end:
        length = _length_of(view, position)[0]
        following = position + length + LOG_OVERHEAD
        if length < _LENGTH_MIN or following > end:
            return positions, position, True
        positions.append(position)
        position = following
    return positions, position, position < soft_end and len(positions) < rows_max


def _rows(
    segment: Segment, data: Array, positions: Array, headers: Array, good: Array, old: Array, ends_file: bool
) -> pa.RecordBatch:
    sizes = headers["length"].astype(np.int64) + LOG_OVERHEAD
    faults = np.where(good, -1, 0)
    faults[old] = FAULTS.index("format")
    if segment.active and ends_file and faults[-1] == 0:
        faults[-1] = FAULTS.index("torn")
    attributes = headers["attributes"]
    markers, coordinator_epochs = _markers(data, positions, headers, good)
    columns = {
        **_place(segment, len(positions)),
        "position": positions,
        "size": sizes,
        "fault": pa.array(np.array(FAULTS)).take(pa.array(faults, mask=faults < 0)),
        "crc_ok": good,
        "base_offset": headers["base_offset"],
        "last_offset": headers["base_offset"] + headers["last_offset_delta"],
        "leader_epoch": headers["leader_epoch"],
        "attributes": attributes,
        "compression": _named([CODECS.get(n, "unknown") for n in range(CODEC_MASK + 1)], attributes & CODEC_MASK),
        **{name: headers[name] for name in _AS_THEY_ARE},
        "is_transactional": (attributes & TRANSACTIONAL) != 0,
        "is_control": (attributes & CONTROL) != 0,
        "marker": _named(MARKERS, markers),
        "coordinator_epoch": coordinator_epochs,
    }
    return as_record_batch(columns, BATCHES)


_AS_THEY_ARE = ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count")


def as_record_batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Build a record batch from Arrow or numpy columns by name."""
    by_field = [columns[field.name] for field in schema]
    arrays = [
        pa.array(values, field.type) if isinstance(values, np.ndarray) else values
        for field, values in zip(schema, by_field, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def _named(names: Any, codes: Array) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _is_batch(data: Array, position: int) -> bool:
    if position + HEADER_SIZE > len(data):
        return False
    header = read_header(data.data, position)
    end = position + header.size
    in_file = HEADER_SIZE <= header.size <= len(data) - position
    return in_file and header.magic == 2 and crc32c(data.data[position + 21 : end]) == header.crc


def _place(segment: Segment, count: int) -> dict[str, Any]:
    return {
        "topic": pa.repeat(segment.topic, count),
        "partition": pa.repeat(pa.scalar(segment.partition, pa.int32()), count),
        "segment_base_offset": pa.repeat(pa.scalar(segment.base_offset, pa.int64()), count),
    }


def _good(data: Array, positions: Array, headers: Array) -> Array:
    """Return a mask of the positions that hold a batch with a correct CRC."""
    view = data.data
    ends = (positions + headers["length"] + LOG_OVERHEAD).tolist()
    crcs = [crc32c(view[at + 21 : end]) for at, end in zip(positions.tolist(), ends, strict=True)]
    right = np.array(crcs, np.uint32) == headers["crc"]
    good: Array = right & (headers["magic"] == 2) & (headers["length"] >= HEADER_SIZE - LOG_OVERHEAD)
    return good


def _old(data: Array, positions: Array, headers: Array) -> Array:
    """Return a mask of messages in formats 0 and 1, whose CRC-32 is where a batch has its leader epoch."""
    old: Array = (headers["magic"] >= 0) & (headers["magic"] < 2)
    for row in np.flatnonzero(old).tolist():
        at, end = int(positions[row]), int(positions[row]) + int(headers["length"][row]) + LOG_OVERHEAD
        old[row] = zlib.crc32(data.data[at + 16 : end]) == int(headers["leader_epoch"][row]) & 0xFFFFFFFF
    return old


def _first_lost(data: Array, good: Array, stop: int) -> int:
    """Return the first bad row that no good batch follows, so its length is not trusted either; the row count if none."""
    bad = np.flatnonzero(~good)
    if not len(bad):
        return len(good)
    followed = np.append(good[1:], stop == len(data) or _is_batch(data, stop))
    lost = bad[~followed[bad]]
    return int(lost[0]) if len(lost) else len(good)


def _markers(data: Array, positions: Array, headers: Array, good: Array) -> tuple[Array, Array]:
    """Return (index into MARKERS, coordinator epoch) of every batch."""
    kinds = np.zeros(len(positions), np.int8)
    epochs = np.full(len(positions), -1, np.int32)
    rows = np.flatnonzero(good & ((headers["attributes"] & (CONTROL | TRANSACTIONAL)) == CONTROL | TRANSACTIONAL))
    usual = rows[headers["length"][rows] == _MARKER_SIZE - LOG_OVERHEAD]
    if len(usual):
        bodies = data[positions[usual, None] + np.arange(HEADER_SIZE, _MARKER_SIZE)]
        # The usual lengths of record, key and value, no headers, and a marker type that ends a transaction.
        as_usual = (bodies[:, [0, 1, 2, 3, 4, 9, 16]] == (32, 0, 0, 0, 8, 12, 0)).all(axis=1)
        as_usual &= (bodies[:, 7] == 0) & (bodies[:, 8] < 2) & (headers["count"][usual] == 1)
        usual, bodies = usual[as_usual], bodies[as_usual]
        kinds[usual] = bodies[:, 8] + 1
        epochs[usual] = np.ascontiguousarray(bodies[:, 12:16]).view(">i4").ravel()
    for row in np.setdiff1d(rows, usual).tolist():
        marker = _unusual_marker(data, int(positions[row]))
        if marker is not None:
            kinds[row], epochs[row] = marker.commit + 1, marker.coordinator_epoch
    return kinds, epochs


def _unusual_marker(data: Array, position: int) -> EndMarker | None:
    header = read_header(data.data, position)
    try:
        records = list(read_records(header, data.data[position + HEADER_SIZE : position + header.size]))
    except DecodeError:
        return None
    return marker_of(records[0]) if records else None


def _end_fault(segment: Segment, data: Array, position: int) -> str:
    """Classify the bytes from `position` to the end of the file, which contain no batch."""
    zeros = not any(data[at : at + _WINDOW].any() for at in range(position, len(data), _WINDOW))
    if zeros:
        return "zeros"
    return "torn" if segment.active or position + LOG_OVERHEAD > len(data) else "corrupt"


def _next_valid(data: Array, position: int, next_offset: int) -> int:
    """Return the position of the first valid batch at or after `position`; end of file if none."""
    end = len(data)
    for start in range(position, end - HEADER_SIZE + 1, _WINDOW):
        stop = min(start + _WINDOW, end - HEADER_SIZE + 1)
        candidates = np.flatnonzero(data[start + 16 : stop + 16] == 2) + start
        headers = headers_at(data, candidates)
        sizes = headers["length"].astype(np.int64) + LOG_OVERHEAD
        ahead = headers["base_offset"] - next_offset
        likely = (sizes >= HEADER_SIZE) & (candidates + sizes <= end) & (ahead >= 0) & (ahead <= np.iinfo(np.int32).max)
        for at, size, crc in zip(candidates[likely], sizes[likely], headers["crc"][likely], strict=True):
            if crc32c(data.data[at + 21 : at + size]) == crc:
                return int(at)
    return end


def deleted_segment(segment: Segment) -> pa.RecordBatch:
    """Return the row of BATCHES for a file that was deleted meanwhile."""
    return _fault_row(segment, 0, segment.size, "segment_deleted")


def _fault_row(segment: Segment, position: int, size: int, fault: str) -> pa.RecordBatch:
    known = {
        "position": pa.array([position]),
        "size": pa.array([size]),
        "fault": pa.array([fault]),
        **_place(segment, 1),
    }
    return pa.record_batch([known.get(field.name, pa.nulls(1, field.type)) for field in BATCHES], schema=BATCHES)
