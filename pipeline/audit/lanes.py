"""Read the fields of many values of the same kind at once: one lane per value, each with its own cursor.

Reads are not checked individually: they are clipped to the buffer, and cursors only move forward. At the end, the cursor
alone shows whether the value was complete. Lanes of an unusual form are marked `odd`: their fields are meaningless, and a
decoder must read their values one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import FAR, Array

INT16, INT32, INT64 = (np.dtype(kind) for kind in (">i2", ">i4", ">i8"))


def places_of(column: pa.Array) -> tuple[Array, Array, Array]:
    """Return (bytes, start of each value, end of each value) of a binary column; a null has no bytes."""
    _, offsets, content = column.buffers()
    if not len(column) or content is None or not content.size:
        nothing = np.zeros(len(column), np.int64)
        return np.zeros(1, np.uint8), nothing, nothing
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    return np.frombuffer(content, np.uint8), ends[:-1], ends[1:]


def integers(data: Array, at: Array, kind: Any) -> Array:
    """Return the big-endian integers at these positions."""
    raw = data.take(at[:, None] + np.arange(kind.itemsize), mode="clip")
    numbers: Array = raw.view(kind).ravel().astype(kind.newbyteorder("="))
    return numbers


class Lanes:
    """Cursors into the values of one column; `live` holds the numbers of the lanes to read."""

    def __init__(self, data: Array, starts: Array, ends: Array) -> None:
        self.data, self.at, self.ends = data, starts.copy(), ends
        self.odd = np.zeros(len(starts), bool)

    def every(self) -> Array:
        """Return the numbers of all lanes."""
        return np.arange(len(self.at))

    def read(self, live: Array, kind: Any) -> Array:
        """Read an integer of `kind` in each live lane, and advance its cursor."""
        numbers = integers(self.data, self.at[live], kind)
        self.at[live] += kind.itemsize
        return numbers

    def read_uvarint(self, live: Array) -> Array:
        """Read varints of at most three bytes; mark lanes with longer ones as odd."""
        at = self.at[live]
        byte = self.data.take(at, mode="clip")
        numbers, at = (byte & 0x7F).astype(np.int64), at + 1
        more = np.flatnonzero(byte >= 0x80)
        for shift in (7, 14):
            if not len(more):
                break
            byte = self.data.take(at[more], mode="clip")
            numbers[more] |= (byte & 0x7F).astype(np.int64) << shift
            at[more] += 1
            more = more[byte >= 0x80]
        self.odd[live[more]] = True
        self.at[live] = at
        return numbers

    def skip(self, live: Array, sizes: Array) -> Array:
        """Skip a field, and return its positions; mark lanes with a negative size as odd."""
        self.odd[live[sizes < 0]] = True
        at: Array = self.at[live]
        self.at[live] = np.minimum(at + np.maximum(sizes, 0), FAR)
        return at

    def left(self, live: Array) -> Array:
        """Return how many bytes each live lane has left."""
        remaining: Array = np.maximum(self.ends[live] - self.at[live], 0)
        return remaining

    def refuse(self, live: Array, which: Array) -> None:
        """Mark lanes as odd."""
        self.odd[live[which]] = True

    def finish(self) -> Array:
        """Return a mask of the lanes that were decoded: neither odd nor past their end."""
        good: Array = ~self.odd & (self.at <= self.ends)
        return good


class NotText(ValueError):
    """Text is not valid UTF-8."""


def as_text(column: pa.Array) -> pa.Array:
    """Return a column of bytes as text. Raises NotText when it is not UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as fault:
        raise NotText(str(fault)) from fault
