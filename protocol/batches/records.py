"""Record batches, format v2.

A batch, all integers big-endian:

     0  base offset       int64   stamped by the broker, not under the CRC
     8  length            int32   bytes after this field: the whole batch has 12 + length
    12  leader epoch      int32   stamped by the broker, not under the CRC
    16  magic             int8    2
    17  crc               uint32  CRC-32C of bytes 21 to the end
    21  attributes        int16   0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta int32
    27  base timestamp    int64   milliseconds
    35  max timestamp     int64
    43  producer id       int64   -1 for none
    51  producer epoch    int16
    53  base sequence     int32
    57  record count      int32
    61  records           compressed together if a codec is set

A record: varint length, int8 attributes, varlong timestamp delta, varint offset delta, varint key length and key,
varint value length and value (-1 for null), varint header count, and key and value of each header in the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import Buffer, DecodeError

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LENGTH_AT: Final = 8
EPOCH_AT: Final = 12
"""Position of the partition leader epoch in a batch."""
MAGIC_AT: Final = 16
MAGIC: Final = 2
_CRC_AT: Final = 17
CRC_FROM: Final = 21
"""Position of the first byte that the CRC covers: the attributes."""
FLAGS_AT: Final = 22
"""Position of the low byte of the attributes, which has the codec and the flags."""
_COUNT_LOW_AT: Final = 60
"""Position of the low byte of the record count."""
NO_TIMESTAMP: Final = -1
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length, which the length of a batch does not include."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
HEADERS_ALL: Final = 1 << 31
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the codecs; the index is the number in a batch's attributes."""
CODECS: Final = dict(enumerate(CODEC_NAMES))

SEQUENCE_MAX: Final = 2**31 - 1
ABORT_KEY: Final = b"\x00\x00\x00\x00"
COMMIT_KEY: Final = b"\x00\x00\x00\x01"
_MARKER_VALUE: Final = Struct(">hi")


class BatchHeader(NamedTuple):
    """The header of a record batch of format v2, 61 bytes, by Kafka's field names."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Records, not `tuple.count`.

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset that follows the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 if the batch has no sequence numbers."""
        if self.base_sequence < 0:
            return -1
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch holds a marker or another control record."""
        return bool(self.attributes & CONTROL)


Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of a record: (name, value), in order; a name may occur more than once."""


class Record(NamedTuple):
    """A decoded record."""

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


_unpack_header: Final = HEADER.unpack_from


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Decode the header at `pos`; the caller must check that all 61 bytes are present."""
    return BatchHeader._make(_unpack_header(buf, pos))


def add_sequence(sequence: int, increment: int) -> int:
    """Return a sequence number plus an increment; 0 follows 2^31-1."""
    total = sequence + increment
    return total if total <= SEQUENCE_MAX else total - SEQUENCE_MAX - 1


def crc_of(buf: Buffer) -> int:
    """Return the correct CRC of the batch in `buf` (one whole batch)."""
    return crc32c(memoryview(buf)[CRC_FROM:])


def zigzag(out: bytearray, value: int) -> None:
    """Append a signed varint."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def unzigzag(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return (signed varint or varlong, position after it). Raises DecodeError, IndexError."""
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), pos
    value &= 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise DecodeError("varlong above 64 bits", pos)
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise DecodeError("varlong of more than 10 bytes", pos)


def unzigzag32(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return (signed 32-bit varint, position after it); bits above 32 are dropped, as in Java. Raises DecodeError, IndexError."""
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), pos
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF
            return (value >> 1) ^ -(value & 1), pos
    raise DecodeError("varint of more than 5 bytes", pos)


def _field(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(1)  # -1
    else:
        zigzag(out, len(value))
        out += value


def build_batch(
    records: Iterable[tuple[Buffer | None, Buffer | None]],
    timestamp_ms: int,
    *,
    headers: Sequence[Headers] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """Return an uncompressed batch of (key, value) pairs with one timestamp. `headers`: headers of each record, in order."""
    out = bytearray(HEADER_SIZE)
    count = 0
    for key, value in records:
        body = bytearray(b"\x00\x00")
        zigzag(body, count)
        _field(body, key)
        _field(body, value)
        if headers is None:
            body.append(0)
        else:
            zigzag(body, len(headers[count]))
            for name, header in headers[count]:
                _field(body, name.encode())
                _field(body, header)
        zigzag(out, len(body))
        out += body
        count += 1
    HEADER.pack_into(
        out,
        0,
        base_offset,
        len(out) - LOG_OVERHEAD,
        leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    seal(out)
    return out


def seal(batch: bytearray | memoryview) -> None:
    """Compute the CRC of a batch and write it into the header."""
    batch[_CRC_AT:CRC_FROM] = crc_of(batch).to_bytes(4, "big")


_PRODUCER_AT: Final = 43
_read_int16: Final = Struct(">h").unpack_from
_write_int16: Final = Struct(">h").pack_into
_write_producer: Final = Struct(">qhi").pack_into


def stamp_producer(
    batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int, attributes: int = 0
) -> None:
    """Write producer id, epoch, base sequence and additional attributes into a batch, in place, and update its CRC."""
    if attributes:
        (present,) = _read_int16(batch, CRC_FROM)
        _write_int16(batch, CRC_FROM, present | attributes)
    _write_producer(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    seal(batch)


_MAX_TIMESTAMP_AT: Final = 35
_stamp_time: Final = Struct(">q").pack_into


def with_append_time(batch: Buffer, header: BatchHeader, now_ms: int) -> Buffer:
    """Return the batch with log append time `now_ms`; a writable memoryview is changed in place."""
    stamped = batch if isinstance(batch, memoryview) and not batch.readonly else bytearray(batch)
    _write_int16(stamped, CRC_FROM, header.attributes | LOG_APPEND_TIME)
    _stamp_time(stamped, _MAX_TIMESTAMP_AT, now_ms)
    seal(stamped)
    return stamped


def with_max_timestamp(batch: Buffer, max_timestamp: int) -> bytearray:
    """Return a copy of the batch with another max timestamp in its header."""
    stamped = bytearray(batch)
    _stamp_time(stamped, _MAX_TIMESTAMP_AT, max_timestamp)
    seal(stamped)
    return stamped


pack_head: Final = Struct(">qiibI").pack
_pack_body_head: Final = Struct(">iibI").pack
_pack_marker: Final = Struct(">hiqqqhii12six").pack
_pack_times: Final = Struct(">6xqq").pack
"""Encodes attributes and last offset delta, both 0, then base and max timestamp."""


def _varint(value: int) -> bytes:
    out = bytearray()
    zigzag(out, value)
    return bytes(out)


SMALL: Final = 256
VARINTS: Final = tuple(_varint(value) for value in range(SMALL))
SIZED: Final = tuple(size + len(varint) for size, varint in enumerate(VARINTS))
"""Size of a field -> its bytes including the varint size before it."""
_NON_IDEMPOTENT_COUNT_1: Final = Struct(">qhii").pack(-1, -1, -1, 1)
"""End of the header of a batch with one record and without a producer: producer id, epoch, sequence, count."""
ONE_RECORD: Final = tuple(_NON_IDEMPOTENT_COUNT_1 + size + b"\x00\x00\x00" for size in VARINTS)
"""Size of the record -> end of the header, the size, and attributes, timestamp delta and offset delta (all 0)."""


def one_record_batch(base_offset: int, leader_epoch: int, timestamp_ms: int, key: bytes, value: bytes | None) -> bytes:
    """Return a batch of one record, as `build_batch` does, in a third of the time; used for the transaction log."""
    key_size = len(key)
    if value is not None and key_size + (value_size := len(value)) < SMALL - 8:
        key_sized, sized = VARINTS[key_size], VARINTS[value_size]
        start = ONE_RECORD[4 + SIZED[key_size] + SIZED[value_size]]
    else:
        key_sized, sized = _varint(key_size), b"\x01" if value is None else _varint(len(value))
        value = value or b""
        start = (
            _NON_IDEMPOTENT_COUNT_1 + _varint(4 + len(key_sized) + key_size + len(sized) + len(value)) + b"\x00\x00\x00"
        )
    tail = b"".join((_pack_times(timestamp_ms, timestamp_ms), start, key_sized, key, sized, value, b"\x00"))
    return pack_head(base_offset, len(tail) + 9, leader_epoch, 2, crc32c(tail)) + tail


def marker_body(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    leader_epoch: int,
    time_type: int = 0,
) -> bytes:
    """Return a transaction marker (a batch of one record and 78 bytes) without its base offset, the first 8 bytes.

    `time_type` is LOG_APPEND_TIME in a topic with LogAppendTime timestamps.
    The CRC does not cover the base offset, so the result is the same for every partition.
    """
    tail = _pack_marker(
        TRANSACTIONAL | CONTROL | time_type,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        -1,
        1,
        _MARKER_COMMIT if commit else _MARKER_ABORT,
        coordinator_epoch,
    )
    return _pack_body_head(66, leader_epoch, 2, crc32c(tail)) + tail


_MARKER_ABORT: Final = b"\x20\x00\x00\x00\x08" + ABORT_KEY + b"\x0c\x00\x00"
_MARKER_COMMIT: Final = b"\x20\x00\x00\x00\x08" + COMMIT_KEY + b"\x0c\x00\x00"


class EndMarker(NamedTuple):
    """A marker that ends a transaction."""

    commit: bool
    coordinator_epoch: int


def marker_of(record: Record) -> EndMarker | None:
    """Decode a control record; return None if it is not a transaction marker.

    As in Kafka, longer keys and values and higher versions are decoded as version 0.
    """
    key, value = record.key, record.value
    if key is None or value is None or len(key) < 4 or len(value) < _MARKER_VALUE.size:
        return None
    kind = int.from_bytes(key[2:4], "big")
    if kind > 1:
        return None
    return EndMarker(kind == 1, _MARKER_VALUE.unpack_from(value)[1])


def read_records(
    header: BatchHeader, payload: Buffer, pos: int = 0, headers_max: int = HEADERS_ALL
) -> Iterator[Record]:
    """Yield the records of a batch; the uncompressed records fill `payload` from `pos` to its end.

    A record has at most its first `headers_max` headers; the others are only checked.
    Raises DecodeError if the records do not match the header or their own lengths.
    """
    end = len(payload)
    if header.count < 0:
        raise DecodeError(f"a batch of {header.count} records", pos)
    for number in range(header.count):
        try:
            length, pos = unzigzag32(payload, pos)
            stop = pos + length
            if length < 0 or stop > end:
                raise DecodeError(f"record {number} of {header.count} runs past the end", pos)
            delta, at = unzigzag(payload, pos + 1)
            offset_delta, at = unzigzag32(payload, at)
            key, at = _read_field(payload, at, stop)
            value, at = _read_field(payload, at, stop)
            headers, at = _read_headers(payload, at, stop, headers_max)
        except IndexError as fault:
            raise DecodeError(f"record {number} of {header.count} ends too early", end) from fault
        if at != stop:
            raise DecodeError(f"record {number} has a wrong length", at)
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise DecodeError(f"record {number} has an offset outside its batch", at)
        pos = stop
        timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp + delta
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    if pos != end:
        raise DecodeError(f"{end - pos} bytes follow the last of {header.count} records", pos)


def only_record(batch: bytes) -> tuple[bytes, bytes | None] | None:
    """Return key and value of a batch with a single uncompressed record without headers, as in the broker's own logs.

    Return None for any other batch: use `read_records`, which takes ten times as long.
    """
    pos = HEADER_SIZE
    try:
        if batch[_COUNT_LOW_AT] != 1 or batch[FLAGS_AT] & CODEC_MASK:
            return None
        length = batch[pos]
        if length > 0x7F:
            length, pos = length & 0x7F | batch[pos + 1] << 7, pos + 1
        pos += 2
        while batch[pos] > 0x7F:  # The timestamp delta.
            pos += 1
        size = batch[pos + 2]
        pos += 3
        if size > 0x7F:
            size, pos = size & 0x7F | batch[pos] << 7, pos + 1
        value_at = pos + (size >> 1)
        key = batch[pos:value_at]
        value_size = batch[value_at]
        pos = value_at + 1
        if value_size > 0x7F:
            value_size, pos = value_size & 0x7F | batch[pos] << 7, pos + 1
        end = pos + (value_size >> 1)
        if value_size == 1:
            value, end = None, pos
        else:
            value = batch[pos:end]
        # With sizes of three bytes, negative sizes or headers, the record does not end at the end of the batch.
        return None if size & 1 or batch[end] or end + 1 != len(batch) else (key, value)
    except IndexError:
        return None


def _read_field(buf: Buffer, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = unzigzag32(buf, pos)
    if length < 0:
        return None, pos
    stop = pos + length
    if stop > end:
        raise DecodeError("a key or value runs past the end of its record", pos)
    return bytes(buf[pos:stop]), stop


def _read_headers(buf: Buffer, pos: int, end: int, kept_max: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, pos = unzigzag32(buf, pos)
    if not count:
        return (), pos
    if count < 0 or count > end - pos:
        raise DecodeError("a record counts more headers than there are bytes", pos)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _read_field(buf, pos, end)
        value, pos = _read_field(buf, pos, end)
        if name is None:
            raise DecodeError("the key of a header is null", pos)
        if len(headers) < kept_max:
            headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), pos
