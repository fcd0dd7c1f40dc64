"""Find the positions of the fields of all records of many batches at once.

`record_starts` first finds where all records begin; then each field is read for all records together. The headers of one
record can only be read in order, but header n of all records can be read together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stuntbroker.pipeline.arrays import FAR, Array, varints
from stuntbroker.pipeline.record_starts import find_starts
from stuntbroker.protocol.primitives import Buffer

HEADER_SIZE_MIN: Final = 2
BLOCK_RECORDS: Final = 16_384
"""Records whose fields are read together: few enough that intermediate arrays stay in the processor's caches."""


class Places(NamedTuple):
    """One element per record, batch after batch. Positions are in the buffer; a negative size means null."""

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


class HeaderPlaces(NamedTuple):
    """One element per record header, record after record."""

    key_at: Array
    key_size: Array
    value_at: Array
    value_size: Array


def _sized(at: Array, size: Array) -> Array:
    """Return the positions after fields of these sizes."""
    behind: Array = at + np.minimum(np.maximum(size, 0), FAR)
    return behind


def find_records(data: Buffer, starts: Array, ends: Array, counts: Array, deltas_max: Array) -> tuple[Places, Array]:
    """Return (fields of the records of batches, mask of the bad batches); the records of a batch are data[start:end].

    A batch is bad if its records do not match `counts` or exceed the offset delta `deltas_max`. The records of a bad batch
    are left out or meaningless.
    """
    begins, bad = find_starts(data, starts, ends, counts, deltas_max)
    view = np.frombuffer(data, np.uint8)
    usable = np.where(bad, 0, counts)
    batch, deltas = np.repeat(np.arange(len(counts)), usable), np.repeat(deltas_max, usable)
    if len(begins) <= BLOCK_RECORDS:
        fields, wrong = _fields(view, begins, deltas)
        bad[batch[wrong]] = True
        return Places(batch, *fields), bad
    out = np.empty((len(Places._fields) - 1, len(begins)), np.int64)
    for first in range(0, len(begins), BLOCK_RECORDS):
        block = slice(first, first + BLOCK_RECORDS)
        fields, wrong = _fields(view, begins[block], deltas[block])
        for row, field in zip(out, fields, strict=True):
            row[block] = field
        bad[batch[block][wrong]] = True
    return Places(batch, *out), bad


def _fields(view: Array, begins: Array, deltas_max: Array) -> tuple[tuple[Array, ...], Array]:
    """Return (the fields of Places after `batch`, mask of the invalid records)."""
    size, at = varints(view, begins)
    stop = _sized(at, size)
    timestamp_delta, at = varints(view, at + 1)
    offset_delta, at = varints(view, at)
    key_size, key_at = varints(view, at)
    value_size, value_at = varints(view, _sized(key_at, key_size))
    header_count, headers_at = varints(view, _sized(value_at, value_size))
    # Positions only rise, so a field that runs past the end of its record makes `room` negative.
    room = stop - headers_at
    wrong = (header_count < 0) | (header_count > room) | ((header_count == 0) & (room != 0))
    wrong |= (offset_delta < 0) | (offset_delta > deltas_max)
    return (
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        headers_at,
        header_count,
        stop,
    ), wrong


def find_headers(data: Array, starts: Array, stops: Array, counts: Array) -> tuple[HeaderPlaces, Array]:
    """Return (the headers of records that have headers, mask of the records whose headers do not fit)."""
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
        cursor[:lanes] = np.minimum(_sized(value_at, value_size), FAR)
        wrong[:lanes] |= key_size < 0
    bad[order] |= wrong | (cursor != stops[order])
    return HeaderPlaces(*out), bad
