"""Read record batches as arrays: the headers of many batches, and the integers and byte strings of many records at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stuntbroker.protocol.batches.records import HEADER, HEADER_SIZE, BatchHeader

Array = npt.NDArray[Any]

HEADERS: Final = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
"""Arrow type of a record's headers."""
FAR: Final = 1 << 59
"""A position after the end of any buffer, small enough that a few of them can be added in 64 bits."""
_NUMPY = {"q": ">i8", "i": ">i4", "I": ">u4", "h": ">i2", "b": "i1"}
HEADER_TYPE: Final = np.dtype(list(zip(BatchHeader._fields, map(_NUMPY.__getitem__, HEADER.format[1:]), strict=True)))
"""A batch header as stored in the file (big-endian)."""
_NATIVE: Final = HEADER_TYPE.newbyteorder("=")


def headers_at(data: Array, positions: Array) -> Array:
    """Return the batch headers at these positions, with the fields of BatchHeader; each must be complete."""
    headers = data[positions[:, None] + np.arange(HEADER_SIZE)]
    return headers.view(HEADER_TYPE).ravel().astype(_NATIVE)


def varints(data: Array, at: Array) -> tuple[Array, Array]:
    """Return (zigzag varlongs at these positions, the positions after them); one of more than 64 bits ends at FAR."""
    byte = data.take(at, mode="clip")
    longer = byte >= 0x80
    if not longer.any():
        return ((byte >> 1) ^ -(byte & 1)).view(np.int8).astype(np.int64), at + 1
    second = data.take(at + 1, mode="clip")
    pair = np.where(longer, (byte & 0x7F) | (second & 0x7F).astype(np.uint16) << 7, byte)
    value = ((pair >> 1) ^ -(pair & 1)).view(np.int16).astype(np.int64)
    at = at + (longer + np.uint8(1))
    more = np.flatnonzero(longer & (second >= 0x80))
    if not len(more):
        return value, at
    bits, end, going = pair[more].astype(np.uint64), at[more], np.arange(len(more))
    for shift in range(14, 64, 7):
        byte = data.take(end[going], mode="clip")
        bits[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        end[going] += 1
        if shift == 63:
            end[going[byte > 1]] = FAR
        going = going[byte >= 0x80]
        if not len(going):
            break
    value[more] = (bits >> np.uint64(1)).astype(np.int64) ^ -(bits & np.uint64(1)).astype(np.int64)
    at[more] = end
    return value, at


def byte_strings(buffer: pa.Buffer, at: Array, sizes: Array) -> pa.Array:
    """Return the byte strings at ascending positions of a buffer; a negative size means null.

    The buffer is viewed as an array of the byte strings and the gaps between them; then every second element is copied.
    """
    count = len(at)
    null = sizes < 0
    if null.all():
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[::2] = at
    offsets[1::2] = at + np.maximum(sizes, 0)
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return with_gaps.take(pa.array(wanted, mask=null) if null.any() else pa.array(wanted))
