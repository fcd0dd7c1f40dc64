"""Decompress the records of batches up to a size limit: one megabyte of zstd can expand to 32 gigabytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stuntbroker.protocol.batches.records import CODECS
from stuntbroker.protocol.primitives import Buffer

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
SIZE_MAX: Final = 1 << 28
"""Maximum size in bytes of a decompressed batch."""
XERIAL: Final = b"\x82SNAPPY\x00"
"""How Java clients frame snappy: this, two int32 versions, then blocks of int32 length and snappy data."""


class PayloadError(ValueError):
    """The payload is not valid for its codec, or decompresses to more than the limit."""


def decompress_payload(codec: int, payload: Buffer, size_max: int = SIZE_MAX) -> bytes:
    """Return the decompressed records of a batch. Raises PayloadError."""
    openers: dict[int, Callable[[bytes, int], bytes]] = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
    if codec not in openers:
        raise PayloadError(f"codec {codec} is unknown")
    try:
        return openers[codec](bytes(payload), size_max)
    except PayloadError:
        raise
    except Exception as fault:  # Each codec library raises its own exceptions.
        raise PayloadError(f"{CODECS[codec]}: {fault}") from fault


def _too_large(size_max: int) -> PayloadError:
    return PayloadError(f"opens to more than {size_max} bytes")


def _gzip(payload: bytes, size_max: int) -> bytes:
    import zlib

    out = b""
    while payload:
        inflater = zlib.decompressobj(31)
        out += inflater.decompress(payload, size_max - len(out) + 1)
        if len(out) > size_max:
            raise _too_large(size_max)
        if not inflater.eof:
            raise PayloadError("gzip: ends too early")
        payload = inflater.unused_data
    return out


def _snappy(payload: bytes, size_max: int) -> bytes:
    if not payload.startswith(XERIAL):
        return _snappy_block(payload, size_max, size_max)
    out = bytearray()
    at = len(XERIAL) + 8
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        at += 4
        if at + size > len(payload):
            raise PayloadError("snappy: a block runs past the end")
        out += _snappy_block(payload[at : at + size], size_max - len(out), size_max)
        at += size
    return bytes(out)


def _snappy_block(block: bytes, room: int, size_max: int) -> bytes:
    import cramjam

    snappy: Any = cramjam.snappy
    if snappy.decompress_raw_len(block) > room:
        raise _too_large(size_max)
    return bytes(snappy.decompress_raw(block))


def _lz4(payload: bytes, size_max: int) -> bytes:
    import cramjam

    return _into(cramjam.lz4, payload, size_max)


def _zstd(payload: bytes, size_max: int) -> bytes:
    import cramjam

    return _into(cramjam.zstd, payload, size_max)


def _into(codec: Any, payload: bytes, size_max: int) -> bytes:
    """Decompress a format without a size field into a buffer that grows until the output fits."""
    size = min(4 * len(payload) + 1_024, size_max)
    while True:
        room = bytearray(size)
        try:
            return bytes(room[: codec.decompress_into(payload, room)])
        except Exception as fault:
            if "whole buffer" not in str(fault):
                raise
            if size == size_max:
                raise _too_large(size_max) from fault
            size = min(4 * size, size_max)
