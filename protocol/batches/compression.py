"""Decompression of batches whose records must be read. Batches are stored and fetched as the client sent them.

The output is limited before it is produced: a megabyte of zstd can expand to 32 gigabytes. Bytes after the end of a gzip
stream, an lz4 frame or the last snappy block are handled as in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.protocol.batches.records import CODECS
from stuntbroker.protocol.primitives import Buffer

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
FILE_SIZE_MAX: Final = 1 << 28
"""Limit in bytes for the records of one batch when the files of a log are read: by `stuntbroker dump`, and by the pipeline."""
CHUNK: Final = 1 << 16
CHUNK_MIN: Final = 1 << 10
PIECE: Final = 1 << 10
"""Minimum cost in bytes of a gzip member, a snappy block or an lz4 block, however small it is."""
PIECES_MIN: Final = 16
"""Number of members or blocks that are allowed whatever the limit is."""
XERIAL: Final = b"\x82SNAPPY\x00"
"""Magic of the snappy framing of Java clients: magic, two int32 versions, then blocks of int32 length and snappy data."""
XERIAL_SIZE: Final = 16
GZIP_LEVEL: Final = 6
GZIP_SLOW_MAX: Final = 1 << 20
"""Bytes above which a faster, weaker gzip level is used."""
GZIP_MAGIC: Final = b"\x1f\x8b"
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_INDEPENDENT, LZ4_BLOCK_CHECKSUM, LZ4_SIZE, LZ4_CHECKSUM, LZ4_DICTIONARY = 0x20, 0x10, 0x08, 0x04, 0x01
"""Flags in the fifth byte of an lz4 frame."""


class CompressionError(ValueError):
    """The payload is invalid for its codec."""


class TooLarge(CompressionError):
    """The payload would decompress to more than the limit."""


def decompress(codec: int, payload: Buffer, size_max: int) -> Buffer:
    """Decompress the records of a batch. Raises TooLarge above `size_max` bytes, CompressionError for an invalid payload."""
    return measured(codec, payload, size_max)[0]


def measured(codec: int, payload: Buffer, size_max: int) -> tuple[Buffer, int]:
    """As `decompress`, but return (records, cost): the cost is their size in bytes, but at least PIECE per member or block."""
    try:
        if codec == GZIP:
            return _gzip(payload, size_max)
        if codec == SNAPPY:
            return _snappy(payload, size_max)
        if codec == LZ4:
            return _lz4(payload, size_max)
        if codec == ZSTD:
            out = _into("zstd", bytes(payload), size_max) if payload else b""
            return out, max(len(out), len(payload))  # The payload may consist of empty frames.
    except CompressionError:
        raise
    except Exception as fault:  # Each codec library has its own exceptions.
        raise CompressionError(f"{CODECS[codec]}: {fault}") from fault
    raise CompressionError(f"codec {codec} is unknown")


def compress(codec: int, payload: Buffer) -> bytes:
    """Return the payload compressed by Kafka's codec number (1 gzip, 2 snappy, 3 lz4, 4 zstd)."""
    import cramjam

    codecs: Any = cramjam
    if codec == GZIP:
        import gzip

        return gzip.compress(payload, GZIP_LEVEL if len(payload) <= GZIP_SLOW_MAX else 1, mtime=0)
    if codec == SNAPPY:
        blocks = (bytes(codecs.snappy.compress_raw(payload[at : at + 32_768])) for at in range(0, len(payload), 32_768))
        return XERIAL + b"\x00\x00\x00\x01" * 2 + b"".join(len(b).to_bytes(4, "big") + b for b in blocks)
    if codec == LZ4:
        # Java reads only blocks that do not refer to the ones before.
        packer = codecs.lz4.Compressor(content_checksum=False, block_linked=False)
        packer.compress(payload)
        return bytes(packer.finish())
    return bytes(codecs.zstd.compress(payload))


def _count(pieces: int, size_max: int) -> int:
    """Return the number of pieces plus one. Raises TooLarge if their minimum cost would exceed the limit."""
    if pieces >= PIECES_MIN + size_max // PIECE:
        raise TooLarge(f"{pieces} members or blocks are too many for a limit of {size_max} bytes")
    return pieces + 1


def _gzip(payload: Buffer, size_max: int) -> tuple[Buffer, int]:
    import zlib

    out = bytearray()
    pos, step, pieces = 0, CHUNK_MIN, 1
    inflater = zlib.decompressobj(31)
    while pos < len(payload) or not inflater.eof:
        if inflater.eof:
            if bytes(payload[pos : pos + 2]) != GZIP_MAGIC or len(payload) - pos < PIECES_MIN:
                break  # No further member follows.
            inflater, step, pieces = zlib.decompressobj(31), CHUNK_MIN, _count(pieces, size_max)
        # Small pieces, because the unused rest of each is copied, and there may be very many members.
        piece = bytes(payload[pos : pos + step])
        out += inflater.decompress(piece, size_max - len(out) + 1)
        if len(out) > size_max:
            raise TooLarge(f"gzip: more than {size_max} bytes")
        pos += len(piece) - len(inflater.unused_data)
        if not piece:
            raise CompressionError("gzip: ends too early")
        step = min(step * 4, CHUNK)
    return out, max(len(out), pieces * PIECE)


def _snappy(payload: Buffer, size_max: int) -> tuple[Buffer, int]:
    if bytes(payload[: len(XERIAL)]) != XERIAL:
        out = _snappy_block(payload, size_max, size_max)
        return out, len(out)
    if len(payload) < XERIAL_SIZE:
        raise CompressionError("snappy: its frame ends too early")
    opened: list[bytes] = []
    pos, size, pieces = XERIAL_SIZE, 0, 0
    while pos + 4 <= len(payload):
        if bytes(payload[pos : pos + len(XERIAL)]) == XERIAL and pos + XERIAL_SIZE <= len(payload):
            pos += XERIAL_SIZE  # Another stream follows.
            pieces = _count(pieces, size_max)
            continue
        length = int.from_bytes(payload[pos : pos + 4], "big", signed=True)
        pos += 4
        if length < 0 or pos + length > len(payload):
            raise CompressionError("snappy: a block runs past the end")
        pieces = _count(pieces, size_max)
        block = _snappy_block(payload[pos : pos + length], size_max - size, size_max)
        opened.append(block)
        size += len(block)
        pos += length
    return b"".join(opened) if len(opened) != 1 else opened[0], max(size, pieces * PIECE)


def _snappy_block(block: Buffer, room: int, size_max: int) -> bytes:
    import cramjam

    codecs: Any = cramjam
    size = int(codecs.snappy.decompress_raw_len(block))
    if size > room:
        raise TooLarge(f"snappy: more than {size_max} bytes")
    return bytes(codecs.snappy.decompress_raw(block))


def _lz4(payload: Buffer, size_max: int) -> tuple[Buffer, int]:
    """Decompress the first frame; Kafka reads no other either. Its blocks must be independent of each other."""
    data = bytes(payload)
    if len(data) < 7 or not data.startswith(LZ4_MAGIC):
        raise CompressionError("lz4: not a frame")
    flags = data[4]
    if not flags & LZ4_INDEPENDENT:
        raise CompressionError("lz4: blocks that depend on each other are not supported, as in Kafka")
    pos, pieces = 7 + (8 if flags & LZ4_SIZE else 0) + (4 if flags & LZ4_DICTIONARY else 0), 0
    while True:
        if pos + 4 > len(data):
            raise CompressionError("lz4: ends too early")
        size = int.from_bytes(data[pos : pos + 4], "little") & 0x7FFF_FFFF
        pos += 4
        if not size:
            break
        pieces = _count(pieces, size_max)
        pos += size + (4 if flags & LZ4_BLOCK_CHECKSUM else 0)
    pos += 4 if flags & LZ4_CHECKSUM else 0
    out = _into("lz4", data[:pos] if pos < len(data) else data, size_max)
    return out, max(len(out), pieces * PIECE)


def _into(kind: str, data: bytes, size_max: int) -> Buffer:
    """Decompress into a buffer that grows up to `size_max`; the size given in the frame is not trusted."""
    import cramjam

    codecs: Any = cramjam
    codec = codecs.lz4 if kind == "lz4" else codecs.zstd
    size = min(max(CHUNK_MIN, 8 * len(data)), size_max)
    while True:
        target = bytearray(size)
        try:
            del target[codec.decompress_into(data, target) :]
        except codecs.DecompressionError as fault:
            if "whole buffer" not in str(fault):
                raise
            if size >= size_max:
                raise TooLarge(f"{kind}: more than {size_max} bytes") from fault
            size = min(size * 8, size_max)
            continue
        return target
