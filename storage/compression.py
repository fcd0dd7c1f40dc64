"""Opening compressed batches. Only where records must be read: a batch is stored and fetched as it came.

The output is bounded before it is made: a megabyte of zstd can stand for 32 gigabytes.
"""

from __future__ import annotations

from typing import Any

from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import CODECS

CHUNK = 1 << 16
CHUNK_MIN = 1 << 10
XERIAL = b"\x82SNAPPY\x00"
"""How Java clients frame snappy: this, two int32 versions, then blocks of int32 length and snappy data."""


class CompressionError(ValueError):
    """The payload is not what its codec says."""


class TooLarge(CompressionError):
    """It would open to more than was allowed."""


def decompress(codec: int, payload: Buffer, size_max: int) -> bytes:
    """The records of a batch. Raises TooLarge above `size_max` bytes, CompressionError for anything malformed."""
    try:
        if codec == 1:
            return _gzip(payload, size_max)
        if codec == 2:
            return _snappy(payload, size_max)
        if codec == 3:
            return _streamed("lz4", payload, size_max)
        if codec == 4:
            return _streamed("zstd", payload, size_max)
    except CompressionError:
        raise
    except Exception as fault:  # Each codec library has its own kinds.
        raise CompressionError(f"{CODECS[codec]}: {fault}") from fault
    raise CompressionError(f"codec {codec} is unknown")


def compress(codec: int, payload: Buffer) -> bytes:
    import cramjam

    codecs: Any = cramjam
    if codec == 1:
        import gzip

        return gzip.compress(payload, 6, mtime=0)
    if codec == 2:
        blocks = (bytes(codecs.snappy.compress_raw(payload[at : at + 32_768])) for at in range(0, len(payload), 32_768))
        return XERIAL + b"\x00\x00\x00\x01" * 2 + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)
    if codec == 3:
        # Java reads only blocks that do not refer to the ones before.
        packer = codecs.lz4.Compressor(content_checksum=False, block_linked=False)
        packer.compress(payload)
        return bytes(packer.finish())
    return bytes(codecs.zstd.compress(payload))


def _gzip(payload: Buffer, size_max: int) -> bytes:
    import zlib

    out = bytearray()
    pos, step = 0, CHUNK_MIN
    inflater = zlib.decompressobj(31)
    while pos < len(payload) or not inflater.eof:
        if inflater.eof:  # Another member follows.
            inflater, step = zlib.decompressobj(31), CHUNK_MIN
        # In pieces: what is not used of one is copied, and there may be very many members.
        piece = bytes(payload[pos : pos + step])
        out += inflater.decompress(piece, size_max - len(out) + 1)
        if len(out) > size_max:
            raise TooLarge(f"gzip: more than {size_max} bytes")
        pos += len(piece) - len(inflater.unused_data)
        if not piece:
            raise CompressionError("gzip: ends too early")
        step = min(step * 4, CHUNK)
    return bytes(out)


def _snappy(payload: Buffer, size_max: int) -> bytes:
    if bytes(payload[: len(XERIAL)]) != XERIAL:
        return _snappy_block(payload, size_max)
    out = bytearray()
    pos = len(XERIAL) + 8
    while pos < len(payload):
        length = int.from_bytes(payload[pos : pos + 4], "big", signed=True)
        pos += 4
        if length < 0 or pos + length > len(payload):
            raise CompressionError("snappy: a block runs past the end")
        out += _snappy_block(payload[pos : pos + length], size_max - len(out))
        pos += length
    return bytes(out)


def _snappy_block(block: Buffer, size_max: int) -> bytes:
    import cramjam

    codecs: Any = cramjam
    size = int(codecs.snappy.decompress_raw_len(block))
    if size > size_max:
        raise TooLarge(f"snappy: {size} bytes, more than {size_max}")
    return bytes(codecs.snappy.decompress_raw(block))


def _streamed(kind: str, payload: Buffer, size_max: int) -> bytes:
    import cramjam

    codecs: Any = cramjam
    codec = codecs.lz4 if kind == "lz4" else codecs.zstd
    data = bytes(payload)
    size = min(max(CHUNK, 4 * len(data)), size_max)
    while True:
        target = bytearray(size)
        try:
            written = codec.decompress_into(data, target)
        except codecs.DecompressionError as fault:
            if "whole buffer" not in str(fault):
                raise
            if size >= size_max:
                raise TooLarge(f"{kind}: more than {size_max} bytes") from fault
            size = min(size * 4, size_max)
            continue
        return bytes(target[:written])
