"""Bytes of record batches as arrays: the headers of many batches at once, byte strings of many records at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stuntbroker.protocol.records import HEADER, HEADER_SIZE, BatchHeader

Array = npt.NDArray[Any]

_NUMPY = {"q": ">i8", "i": ">i4", "I": ">u4", "h": ">i2", "b": "i1"}
HEADER_TYPE: Final = np.dtype(list(zip(BatchHeader._fields, map(_NUMPY.__getitem__, HEADER.format[1:]), strict=True)))
"""A batch's header as it is in the file."""
_NATIVE: Final = HEADER_TYPE.newbyteorder("=")


def headers_at(data: Array, positions: Array) -> Array:
    """The headers at these positions, with the fields of BatchHeader; each must be whole."""
    gathered = data[positions[:, None] + np.arange(HEADER_SIZE)]
    return gathered.view(HEADER_TYPE).ravel().astype(_NATIVE)


def byte_strings(buffer: pa.Buffer, at: Array, sizes: Array) -> pa.Array:
    """Byte strings at rising positions of a buffer; a size below 0 is a null.

    The whole buffer is taken for an array of them and of the gaps between; then every second element is copied out.
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
