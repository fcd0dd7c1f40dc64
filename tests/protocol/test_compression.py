"""The four codecs with the data of several clients. Decompression bombs and invalid data cost little memory and time."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from functools import partial
from typing import Any

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import example, given
from hypothesis import strategies as st

from stuntbroker.protocol.batches.compression import (
    CHUNK,
    PIECE,
    XERIAL,
    CompressionError,
    TooLarge,
    compress,
    decompress,
    measured,
)

codecs: Any = cramjam
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
SIZE_MAX = 1 << 20
TIME_S_MAX = 2.0

WRITERS = {
    "gzip, Java": (GZIP, lambda data: gzip.compress(data, 6)),
    "gzip, aiokafka": (GZIP, aiokafka_codec.gzip_encode),
    "gzip, two members": (GZIP, lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])),
    "snappy in blocks, Java and aiokafka": (SNAPPY, aiokafka_codec.snappy_encode),
    "snappy raw, librdkafka and franz-go": (SNAPPY, lambda data: bytes(codecs.snappy.compress_raw(data))),
    "lz4, aiokafka": (LZ4, aiokafka_codec.lz4_encode),
    "zstd, aiokafka": (ZSTD, aiokafka_codec.zstd_encode),
    **{f"{codec}, ours": (codec, partial(compress, codec)) for codec in (GZIP, SNAPPY, LZ4, ZSTD)},
}
written = pytest.mark.parametrize(("codec", "write"), WRITERS.values(), ids=WRITERS)


@written
@given(st.binary(max_size=200), st.sampled_from([1, 7, 400, 5_000]))
@example(b"x" * 32_768, 2)
@example(b"", 1)
def test_data_compressed_by_clients_is_decompressed(codec: int, write: Any, data: bytes, times: int) -> None:
    data *= times
    packed = bytes(write(data))

    for buffer in (packed, bytearray(packed), memoryview(packed)):
        assert decompress(codec, buffer, max(len(data), 1)) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(st.binary(min_size=1, max_size=100), st.integers(1, 2_000))
def test_other_libraries_decompress_our_data(codec: int, data: bytes, times: int) -> None:
    data *= times
    read: Any = {
        GZIP: gzip.decompress, SNAPPY: aiokafka_codec.snappy_decode, LZ4: aiokafka_codec.lz4_decode,
        ZSTD: aiokafka_codec.zstd_decode,
    }[codec]  # fmt: skip

    assert bytes(read(compress(codec, data))) == data


@written
def test_the_limit_is_the_size_of_the_output(codec: int, write: Any) -> None:
    for size in (1, 99, CHUNK, 4 * CHUNK + 1):
        packed = bytes(write(bytes(size)))
        assert len(decompress(codec, packed, size)) == size
        with pytest.raises(TooLarge, match="more than"):
            decompress(codec, packed, size - 1)


def bomb(codec: int) -> bytes:
    """256 MiB of zeros, compressed as far as the codec can."""
    size = 256 << 20
    match codec:
        case 1:
            return gzip.compress(bytes(size // 16), 9) * 16
        case 2:
            block = bytes(codecs.snappy.compress_raw(bytes(1 << 20)))
            return XERIAL + bytes(8) + (len(block).to_bytes(4, "big") + block) * 256
        case 3:
            return compress(LZ4, bytes(size))
        case _:
            return bytes(codecs.zstd.compress(bytes(size), 3))


LYING = {
    "snappy: says it opens to 4 GiB": (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 99),
    "snappy: says it opens to the limit": (SNAPPY, b"\x80\x80\x40" + b"\x00a"),
    "snappy: blocks that open to nothing": (SNAPPY, XERIAL + bytes(8) + b"\x00\x00\x00\x01\x00" * 30_000),
    "snappy: a block of 2 GiB": (SNAPPY, XERIAL + bytes(8) + b"\x7f\xff\xff\xff" + b"\x00" * 99),
    "snappy: a block of less than nothing": (SNAPPY, XERIAL + bytes(8) + b"\xff\xff\xff\xff" + b"\x00" * 99),
    "snappy: a block that ends where it begins": (SNAPPY, XERIAL + bytes(8) + b"\xff\xff\xff\xfc" + b"\x00" * 99),
    "zstd: says it opens to an exabyte": (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\x00" * 7 + b"\x10" + b"\x01\x00\x00"),
    "zstd: a window of 2 GiB": (ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"),
    "gzip: very many members": (GZIP, gzip.compress(b"", mtime=0) * 50_000),
    "gzip: nothing": (GZIP, b""),
    "lz4: nothing": (LZ4, b""),
    "zstd: nothing": (ZSTD, b""),
    "snappy: nothing": (SNAPPY, b""),
    "snappy: a frame and no more": (SNAPPY, XERIAL),
}


def opened(codec: int, packed: bytes) -> bytes | CompressionError:
    try:
        return decompress(codec, packed, SIZE_MAX)
    except CompressionError as fault:
        return fault


def costs(codec: int, packed: bytes) -> tuple[float, int, bytes | CompressionError]:
    """(seconds, peak memory in bytes, result or error)."""
    began = time.perf_counter()
    outcome = opened(codec, packed)
    spent = time.perf_counter() - began
    tracemalloc.start()
    opened(codec, packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return spent, peak, outcome


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_costs_no_more_than_the_limit(codec: int) -> None:
    packed = bomb(codec)

    spent, peak, outcome = costs(codec, packed)

    assert isinstance(outcome, TooLarge)
    assert spent < TIME_S_MAX
    assert peak < 4 * SIZE_MAX + 2 * len(packed)


@pytest.mark.parametrize(("codec", "packed"), LYING.values(), ids=LYING)
def test_a_hostile_payload_costs_no_more_than_the_limit(codec: int, packed: bytes) -> None:
    spent, peak, outcome = costs(codec, packed)

    assert outcome == b"" or isinstance(outcome, CompressionError)
    assert spent < TIME_S_MAX
    assert peak < 4 * SIZE_MAX + 2 * len(packed)


@given(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7]), st.binary(max_size=300))
def test_rubbish_is_a_compression_error_or_decompresses_to_something_small(codec: int, rubbish: bytes) -> None:
    starts = [b"", b"\x1f\x8b\x08\x00", XERIAL + bytes(8), b"\x04\x22\x4d\x18\x64\x40\xa7", b"\x28\xb5\x2f\xfd"]
    for start in starts:
        try:
            content = decompress(codec, start + rubbish, 10_000)
        except CompressionError:
            continue
        assert len(content) <= 10_000


@written
@given(st.data())
def test_a_damaged_payload_raises_compression_error_or_decompresses(
    codec: int, write: Any, data: st.DataObject
) -> None:
    packed = bytearray(write(b"some text, some text, " * 40))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(0, len(packed))) :]
    try:
        assert len(decompress(codec, packed, 100_000)) <= 100_000
    except CompressionError:
        return


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_an_unknown_codec_is_a_compression_error(codec: int) -> None:
    with pytest.raises(CompressionError, match="unknown"):
        decompress(codec, b"abc", 10)


def test_compressed_data_has_the_framing_that_java_reads() -> None:
    """Gzip without name and time, snappy in xerial's blocks, lz4 with independent blocks."""
    starts = {GZIP: b"\x1f\x8b\x08\x00\x00\x00\x00\x00", SNAPPY: XERIAL + b"\x00\x00\x00\x01" * 2,
              LZ4: b"\x04\x22\x4d\x18", ZSTD: b"\x28\xb5\x2f\xfd"}  # fmt: skip
    for codec, start in starts.items():
        assert compress(codec, b"abc" * 100_000).startswith(start)
    version, independent, checksum = 0x40, 0x20, 0x04
    flags = compress(LZ4, b"abc" * 100_000)[4]
    assert flags & (version | independent | checksum) == version | independent


# --- bytes after a stream: as Kafka 4.3.1 reads them

TEXT = b"some text " * 9
ENDS = {
    #                                          codec, bytes behind one stream of TEXT -> what it opens to, None: refused
    "gzip, two bytes": (GZIP, b"xx", TEXT),
    "gzip, a zero": (GZIP, b"\0", TEXT),
    "gzip, zeros": (GZIP, bytes(40), TEXT),
    "gzip, the beginning of another": (GZIP, b"\x1f\x8b", TEXT),
    "gzip, half a head": (GZIP, gzip.compress(TEXT)[:12], TEXT),
    "gzip, another": (GZIP, gzip.compress(b"abc"), TEXT + b"abc"),
    "gzip, a broken one": (GZIP, b"\x1f\x8b\x08" + bytes(30), None),
    "gzip, one without end": (GZIP, gzip.compress(TEXT)[:-4], None),
    "snappy, two bytes": (SNAPPY, b"xx", TEXT),
    "snappy, a size and no block": (SNAPPY, b"\0\0\0\x09", None),
    "snappy, a block below 0": (SNAPPY, b"\xff\xff\xff\xff" + bytes(9), None),
    "snappy, zeros": (SNAPPY, bytes(40), None),
    "snappy, another stream": (SNAPPY, compress(SNAPPY, b"abc"), TEXT + b"abc"),
    "snappy, a stream of nothing": (SNAPPY, compress(SNAPPY, b""), TEXT),
    "snappy, half a frame": (SNAPPY, XERIAL + b"\0\0", None),
    "lz4, two bytes": (LZ4, b"xx", TEXT),
    "lz4, zeros": (LZ4, bytes(40), TEXT),
    "lz4, another frame": (LZ4, compress(LZ4, b"abc"), TEXT),
    "zstd, two bytes": (ZSTD, b"xx", None),
    "zstd, another frame": (ZSTD, compress(ZSTD, b"abc"), TEXT + b"abc"),
}


@pytest.mark.parametrize("what", ENDS)
def test_bytes_after_a_compressed_stream_are_handled_as_in_kafka(what: str) -> None:
    codec, behind, expected = ENDS[what]
    packed = compress(codec, TEXT) + behind
    if expected is not None:
        assert decompress(codec, packed, 1_000) == expected
        return
    with pytest.raises(CompressionError):
        decompress(codec, packed, 1_000)


def lz4_frame(**how: bool) -> bytes:
    packer = codecs.lz4.Compressor(**how)
    packer.compress(TEXT)
    return bytes(packer.finish())


def test_blocks_of_lz4_that_refer_to_each_other_are_refused_as_java_cannot_read_them() -> None:
    for checksum in (False, True):
        frame = lz4_frame(content_checksum=checksum, block_linked=False)
        assert decompress(LZ4, frame, 1_000) == TEXT
        assert decompress(LZ4, frame + b"x", 1_000) == TEXT
        with pytest.raises(CompressionError, match="depend"):
            decompress(LZ4, lz4_frame(content_checksum=checksum, block_linked=True), 1_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_empty_and_truncated_streams_are_refused(codec: int) -> None:
    """Exceptions: an empty zstd stream decompresses to nothing, and a snappy stream may end after any block."""
    packed = compress(codec, TEXT)
    for end in range(0 if codec != ZSTD else 1, len(packed)):
        if codec == SNAPPY and 16 <= end < 20:
            assert decompress(codec, packed[:end], 1_000) == b""
            continue
        with pytest.raises(CompressionError):
            decompress(codec, packed[:end], 1_000)
    assert decompress(ZSTD, b"", 1_000) == b""


@pytest.mark.parametrize(
    ("codec", "piece", "start", "end"),
    [
        (GZIP, gzip.compress(b"", mtime=0), b"", b""),
        (SNAPPY, b"\0\0\0\x01\0", XERIAL + bytes(8), b""),
        (LZ4, compress(LZ4, b"ab")[7:-4], compress(LZ4, b"ab")[:7], bytes(4)),
    ],
)
def test_each_tiny_member_or_block_costs_as_much_as_a_kilobyte(
    codec: int, piece: bytes, start: bytes, end: bytes
) -> None:
    """Decompressing one takes about that long, so that very many of them exceed the budget."""
    opened, cost = measured(codec, start + piece * 100 + end, 1 << 20)
    assert (len(opened) <= 200, cost) == (True, 100 * PIECE)
    with pytest.raises(TooLarge, match="members or blocks are too many"):
        measured(codec, start + piece * 2_000 + end, 1 << 20)
    assert measured(ZSTD, compress(ZSTD, b"") * 100, 1_000) == (b"", 100 * len(compress(ZSTD, b"")))
    many = b"a" * 5_000_000
    assert measured(codec, compress(codec, many), 5_000_000) == (many, 5_000_000)
