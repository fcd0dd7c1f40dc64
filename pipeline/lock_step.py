"""Where the parts of records are, found for many batches at once.

A record begins where the one before it ends, so a batch can only be read from front to back; but record n of every
batch can be read together, in numpy. Batches that are still going when few others are, are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stuntbroker.pipeline.arrays import Array
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import unzigzag

LANES_MIN: Final = 96
"""Batches below which reading them one by one is faster."""
RECORD_SIZE_MIN: Final = 7
HEADER_SIZE_MIN: Final = 2
_FAR: Final = 1 << 59
"""A position behind every end; a few of them can be added up in 64 bits."""
_FIELDS: Final = (
    "timestamp_delta", "offset_delta", "key_at", "key_size", "value_at", "value_size", "headers_at", "header_count", "stop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Places:
    """One element a record, batch after batch. Positions are in the buffer, sizes are negative for null."""

    batch: Array
    timestamp_delta: Array
    offset_delta: Array
    key_at: Array
    key_size: Array
    value_at: Array
    value_size: Array
    headers_at: Array
    header_count: Array
    stop: Array


@dataclass(frozen=True, slots=True)
class HeaderPlaces:
    """One element a header of a record, record after record."""

    key_at: Array
    key_size: Array
    value_at: Array
    value_size: Array


def varints(data: Array, at: Array) -> tuple[Array, Array]:
    """(zigzag varlongs at these positions, the positions behind them); one of more than 64 bits ends at _FAR."""
    byte = data.take(at, mode="clip")
    if not len(byte) or byte.max() < 0x80:
        value = byte.astype(np.int64)
        return (value >> 1) ^ -(value & 1), at + 1
    if byte.min() >= 0x80:
        second = data.take(at + 1, mode="clip")
        if second.max() < 0x80:
            value = (byte & 0x7F) | (second.astype(np.int64) << 7)
            return (value >> 1) ^ -(value & 1), at + 2
    bits = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    more = np.flatnonzero(byte >= 0x80)
    for shift in range(7, 64, 7):
        byte = data.take(at[more], mode="clip")
        bits[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        if shift == 63:
            at[more[byte > 1]] = _FAR
            break
        more = more[byte >= 0x80]
        if not len(more):
            break
    return (bits >> np.uint64(1)).astype(np.int64) ^ -(bits & np.uint64(1)).astype(np.int64), at


def _sized(at: Array, size: Array) -> Array:
    """Behind a field of that size."""
    behind: Array = at + np.clip(size, 0, _FAR)
    return behind


def find_records(data: Array, starts: Array, ends: Array, counts: Array, deltas_max: Array) -> tuple[Places, Array]:
    """The records of batches whose payloads are data[start:end], and which batches are not as they declare.

    `deltas_max` bounds the offset deltas. What is found of a bad batch means nothing.
    """
    bad = (counts < 0) | (counts * RECORD_SIZE_MIN > ends - starts)
    counts = np.where(bad, 0, counts).astype(np.int64)
    rows = np.cumsum(counts) - counts
    total = int(counts.sum())
    out = {name: np.zeros(total, np.int64) for name in _FIELDS}
    order = np.argsort(-counts, kind="stable")
    sorted_counts, sorted_rows = counts[order], rows[order]
    sorted_ends, sorted_max = ends[order], deltas_max[order]
    cursor, wrong = starts[order].astype(np.int64), np.zeros(len(order), bool)
    step = 0
    while True:
        lanes = int(np.searchsorted(-sorted_counts, -step, side="left"))
        if lanes < LANES_MIN:
            break
        found = _step(data, cursor[:lanes])
        row = sorted_rows[:lanes] + step
        for name in _FIELDS:
            out[name][row] = found[name]
        stop, delta = found["stop"], found["offset_delta"]
        wrong[:lanes] |= (stop > sorted_ends[:lanes]) | (delta < 0) | (delta > sorted_max[:lanes]) | found["wrong"]
        cursor[:lanes] = np.minimum(stop, _FAR)
        step += 1
    for lane in range(lanes):
        last = (int(cursor[lane]), int(sorted_ends[lane]), int(sorted_max[lane]))
        if not wrong[lane]:
            filled = _one_by_one(data.data, *last, int(sorted_counts[lane]) - step)
            wrong[lane] = filled is None
            if filled is not None:
                cursor[lane] = last[1]
                at = int(sorted_rows[lane]) + step
                for name, values in zip(_FIELDS, filled, strict=True):
                    out[name][at : at + len(values)] = values
    wrong |= cursor != sorted_ends
    bad[order] |= wrong
    return Places(np.repeat(np.arange(len(counts)), counts), **out), bad


def _step(data: Array, cursor: Array) -> dict[str, Array]:
    """The next record of every batch, and `wrong` where it does not fit into its own length."""
    size, at = varints(data, cursor)
    stop = _sized(at, size)
    timestamp_delta, at = varints(data, at + 1)
    offset_delta, at = varints(data, at)
    key_size, key_at = varints(data, at)
    value_size, value_at = varints(data, _sized(key_at, key_size))
    header_count, headers_at = varints(data, _sized(value_at, value_size))
    wrong = (size < 0) | (headers_at > stop) | (header_count < 0) | ((header_count == 0) & (headers_at != stop))
    wrong |= header_count > (stop - headers_at)
    return {
        "timestamp_delta": timestamp_delta, "offset_delta": offset_delta, "key_at": key_at, "key_size": key_size,
        "value_at": value_at, "value_size": value_size, "headers_at": headers_at, "header_count": header_count,
        "stop": stop, "wrong": wrong,
    }  # fmt: skip


def _one_by_one(data: Buffer, at: int, end: int, delta_max: int, count: int) -> list[Array] | None:
    """The same fields of the `count` last records of one batch, in the order of _FIELDS; None when they are wrong."""
    found = []
    try:
        for _ in range(count):
            size, at = unzigzag(data, at)
            stop = at + size
            timestamp_delta, at = unzigzag(data, at + 1)
            offset_delta, at = unzigzag(data, at)
            key_size, key_at = unzigzag(data, at)
            value_size, value_at = unzigzag(data, key_at + key_size if key_size > 0 else key_at)
            header_count, at = unzigzag(data, value_at + value_size if value_size > 0 else value_at)
            if size < 0 or stop > end or not 0 <= offset_delta <= delta_max or not 0 <= header_count <= stop - at:
                return None
            if not header_count and at != stop:
                return None
            found.append(
                (timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, at, header_count, stop)
            )
            at = stop
    except (IndexError, ValueError):  # The end of the buffer, or a DecodeError.
        return None
    return list(np.array(found, np.int64).T) if at == end else None


def find_headers(data: Array, starts: Array, stops: Array, counts: Array) -> tuple[HeaderPlaces, Array]:
    """The headers of records that have some, and which records they do not fit into."""
    bad = counts * HEADER_SIZE_MIN > stops - starts
    counts = np.where(bad, 0, counts)
    rows = np.cumsum(counts) - counts
    out = [np.zeros(int(counts.sum()), np.int64) for _ in range(4)]
    order = np.argsort(-counts, kind="stable")
    sorted_counts, sorted_rows = counts[order], rows[order]
    cursor, wrong = starts[order].astype(np.int64), np.zeros(len(order), bool)
    for step in range(int(counts.max(initial=0))):
        lanes = int(np.searchsorted(-sorted_counts, -step, side="left"))
        key_size, key_at = varints(data, cursor[:lanes])
        value_size, value_at = varints(data, _sized(key_at, key_size))
        row = sorted_rows[:lanes] + step
        for target, values in zip(out, (key_at, key_size, value_at, value_size), strict=True):
            target[row] = values
        cursor[:lanes] = np.minimum(_sized(value_at, value_size), _FAR)
        wrong[:lanes] |= key_size < 0
    bad[order] |= wrong | (cursor != stops[order])
    return HeaderPlaces(*out), bad
