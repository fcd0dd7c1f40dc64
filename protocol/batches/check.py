"""Validation of a client's record batch before it is stored. Pure functions: bytes in, verdict out.

The order is Kafka's (ProduceRequest, UnifiedLog, LogValidator): shape, base offset, size, CRC, then header, then records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct, calcsize
from types import FunctionType
from typing import Final

from stuntbroker.protocol.batches.records import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    EPOCH_AT,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    read_header,
    unzigzag32,
)
from stuntbroker.protocol.caches import keep
from stuntbroker.protocol.compiler import i64
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer, DecodeError

ZSTD: Final = 4
PRODUCE_ZSTD_FROM: Final = 7
LENGTH_MIN: Final = 14
"""Length below which Kafka treats a batch as corrupt."""
LENGTH_MAX: Final = 2**31 - 1 - LOG_OVERHEAD
"""Length above which Kafka's sum of length and overhead overflows."""
NOT_PLAIN: Final = CODEC_MASK | CONTROL | LOG_APPEND_TIME
# Unlike Kafka: Kafka reads every record of every batch.
READ_MAX: Final = 2
"""Number of records above which an uncompressed batch is not read: only the lengths of its records are checked."""
HEADERS_MAX: Final = 32
"""Number of headers above which a record is left to `walk`."""
ROWS_FROM: Final = 16
"""Number of records from which runs of records of equal size are skipped together."""
ROW: Final = 64
"""Maximum number of records that are compared at once."""
ROW_MIN: Final = 6
"""Number of records below which a run is too short to be worth the search."""
SHORT_RUNS_EXCESS_MAX: Final = 4
"""When there were this many more short runs than long ones, the remaining records are skipped one by one."""
RECORDS_AT_ONCE: Final = 30_000
"""Records of a large batch that are checked in one step, which takes a few milliseconds."""
IS_COMPILED: Final = not isinstance(read_header, FunctionType)
"""Whether this module and `read_header` are compiled, or both are not."""
SMALL_RECORD_BYTES: Final = 512
"""Average bytes of a record up to which compiled code reads the length of each record. Larger records take longer to copy than to
compare, and the interpreter compares the lengths of many at once."""
WINDOW_BYTES: Final = 65_536
"""Bytes of a batch that are copied at once if its records are small: compiled code reads `bytes` faster than other buffers."""
WINDOW_BYTES_MIN: Final = 1_024
"""The same if its records are large: only their lengths are needed."""
Shape = tuple[Callable[[Buffer], tuple[int, ...]], tuple[int, ...]]
shapes: Final[dict[int, Shape]] = {}
"""For batches of fewer than ROWS_FROM records, all of one size: function that unpacks the sizes, and the expected sizes.

Key: batch bytes * 16 + number of records, which clients tend to repeat.
"""

HeaderVerdict = tuple[BatchHeader | None, ErrorCode, str | None]
"""(header, error, message); the header is None if the batch is refused for its form, before its transaction is checked."""

_OK = ErrorCode.NONE


def _refuse(error: ErrorCode, message: str) -> HeaderVerdict:
    return None, error, message


def check_batch(records: Buffer | None, version: int, size_max: int) -> HeaderVerdict:
    """Validate everything in a client's batch but its records. `version`: of the Produce request.

    An incomplete batch may follow, which the caller must drop.
    """
    if not records or len(records) < HEADER_SIZE:
        return _check_short(records)
    header = read_header(records)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        _,
        base_sequence,
        count,
    ) = header
    size = length + LOG_OVERHEAD
    if length < LENGTH_MIN or size > len(records) or magic != MAGIC or size < HEADER_SIZE:
        return _check_short(records)
    if attributes & CODEC_MASK >= ZSTD:
        if attributes & CODEC_MASK > ZSTD:
            return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"codec {attributes & CODEC_MASK} is unknown")
        if version < PRODUCE_ZSTD_FROM:
            return _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {PRODUCE_ZSTD_FROM} or newer")
    if len(records) - size >= LOG_OVERHEAD + 5 and (error := _another_batch(records, size)):
        return _refuse(error, "a request may have only one record batch per partition")
    if base_offset != 0:
        return header, ErrorCode.INVALID_RECORD, f"the base offset must be 0, it is {base_offset}"
    if size > size_max:
        return header, ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, {size_max} are allowed"
    if crc32c(memoryview(records)[CRC_FROM:size]) != crc:
        return header, ErrorCode.CORRUPT_MESSAGE, "the record batch has a wrong CRC"
    if attributes & CONTROL:
        return header, ErrorCode.INVALID_RECORD, "clients cannot write control batches"
    if count <= 0 or last_offset_delta != count - 1:
        wrong = f"a batch of {count} records cannot have the last offset delta {last_offset_delta}"
        return header, ErrorCode.INVALID_RECORD, wrong
    if producer_id >= 0 and base_sequence < 0:
        return header, ErrorCode.INVALID_RECORD, "a batch with a producer id needs a base sequence"
    # Unlike Kafka: of wrong max timestamps, only one below the base timestamp is corrected, by
    # `produce_checks.with_latest_timestamp`; the timestamp type is not.
    return header, _OK, None


def plain_header(records: Buffer, size_max: int, timestamp_max: int) -> BatchHeader | None:
    """Return the header of an uncompressed batch that passes all checks; None if the full checks must decide.

    A fast path for nearly all batches: it accepts none that `check_batch`, `small_records_wrong` or `records_fill` refuses.
    """
    size = len(records)
    if size < HEADER_SIZE:
        return None
    header = read_header(records)
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        timestamp,
        producer_id,
        _,
        base_sequence,
        count,
    ) = header
    if (
        length + LOG_OVERHEAD != size
        or magic != MAGIC
        or attributes & NOT_PLAIN
        or base_offset
        or size > size_max
        or not base_timestamp <= timestamp <= timestamp_max
        or last_offset_delta + 1 != count
        or (base_sequence < 0 and producer_id >= 0)
        or crc32c(records[CRC_FROM:]) != crc
    ):
        return None
    if count > READ_MAX:
        return header if records_fill(records, header) else None
    return None if count <= 0 or small_records_wrong(records, header) else header


def _check_short(records: Buffer | None) -> HeaderVerdict:
    """Return the verdict on bytes that are not a complete batch of format v2."""
    if not records or len(records) < LOG_OVERHEAD + 5:
        return _refuse(ErrorCode.INVALID_RECORD, "the request has no record batch for this partition")
    length = int.from_bytes(records[LENGTH_AT:EPOCH_AT], "big", signed=True)
    if length < LENGTH_MIN:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {length}")
    if length > LENGTH_MAX:
        return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch cannot have the length {length}")
    if length + LOG_OVERHEAD > len(records):
        return _refuse(ErrorCode.INVALID_RECORD, "the record batch for this partition is incomplete")
    if records[MAGIC_AT] > MAGIC:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, f"magic {records[MAGIC_AT]} does not exist")
    if records[MAGIC_AT] != MAGIC:
        return _refuse(
            ErrorCode.INVALID_RECORD, f"only record batches of magic 2 are supported, not {records[MAGIC_AT]}"
        )
    return _refuse(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {length}")


def _another_batch(records: Buffer, at: int) -> ErrorCode:
    """Return the error for the bytes after the batch, which are enough for a length and a magic byte."""
    length = int.from_bytes(records[at + LENGTH_AT : at + EPOCH_AT], "big", signed=True)
    if length < LENGTH_MIN or records[at + MAGIC_AT] > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    if length > LENGTH_MAX:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.INVALID_RECORD if at + length + LOG_OVERHEAD <= len(records) else _OK


def records_fill(batch: Buffer, header: BatchHeader) -> bool:
    """Whether the lengths of an uncompressed batch's records add up to its size; takes about 0.1 us per small record."""
    pos, end, count = HEADER_SIZE, header.length + LOG_OVERHEAD, header.count
    try:
        if not (IS_COMPILED and end <= SMALL_RECORD_BYTES * count):
            if count >= ROWS_FROM:
                pos, count = _skip_rows(batch, pos, count)
            elif shape := shapes.get(end << 4 | count) or _new_shape(batch, end, count):
                sizes_of, sizes = shape
                if sizes_of(batch) == sizes:
                    return True
        return _skip_records(batch, pos, count, end) == end
    except (IndexError, DecodeError):
        return False


def records_fill_in_steps(batch: Buffer, header: BatchHeader) -> Iterator[bool | None]:
    """As `records_fill` for very many records: yield None after every RECORDS_AT_ONCE records, and the result at the end."""
    pos, end, left = HEADER_SIZE, header.length + LOG_OVERHEAD, header.count
    try:
        while left > 0 and 0 <= pos < end:
            pos, remaining = _skip_rows(batch, pos, min(left, RECORDS_AT_ONCE))
            pos = _skip_records(batch, pos, remaining, end)
            left -= RECORDS_AT_ONCE
            yield None
    except (IndexError, DecodeError):
        pos = -1
    yield pos == end and left <= 0


def _skip_records(batch: Buffer, pos: int, count: int, end: int) -> int:
    """Return the position after `count` records by their lengths; -1 if one is wrong or missing."""
    window = WINDOW_BYTES if end - pos <= SMALL_RECORD_BYTES * count else WINDOW_BYTES_MIN
    while count:
        skipped, left = _skip_in_window(bytes(batch[pos : min(end, pos + window)]), count)
        if left == count:
            return -1
        pos += skipped
        count = left
    return pos


def _skip_in_window(records: bytes, count: int) -> tuple[int, int]:
    """Skip up to `count` records, the last of which may end outside; return the bytes skipped, and the number of records left.

    Ends before a record whose length is not positive, or more than a batch can have: Kafka refuses each of these.
    """
    pos: i64 = 0
    try:
        while count:
            byte: i64 = records[pos]
            if byte & 1:
                break
            length: i64 = byte >> 1
            start: i64 = pos + 1
            if byte >= 0x80:
                second: i64 = records[pos + 1]
                if second < 0x80:
                    length += (second << 6) - 64  # Zigzag of (byte & 0x7f | second << 7)
                    start += 1
                else:
                    length, start = unzigzag32(records, pos)
                    if length > LENGTH_MAX:
                        break
            if not length:
                break
            pos = start + length
            count -= 1
    except (IndexError, DecodeError):  # At the end of the window, or wrong.
        return pos, count
    return pos, count


def _new_shape(batch: Buffer, end: int, count: int) -> Shape | None:
    """Return the shape of batches of this size and count whose records are all as long as the first; None if impossible."""
    byte, second = batch[HEADER_SIZE], batch[HEADER_SIZE + 1]
    if byte < 0x80:
        step, size, field = 1 + (byte >> 1), byte, "B"
    elif second < 0x80:
        step, size, field = (byte >> 1) + (second << 6) - 62, byte << 8 | second, "H"
    else:
        return None
    if byte & 1 or step <= calcsize(field) or HEADER_SIZE + step * count != end or len(batch) < end:
        return None
    sizes_of = Struct(f">{HEADER_SIZE}x" + f"{field}{step - calcsize(field)}x" * count).unpack_from
    return keep(shapes, end << 4 | count, (sizes_of, (size,) * count))


def _skip_rows(batch: Buffer, pos: int, count: int) -> tuple[int, int]:
    """Skip runs of records of equal size from `pos` on; return (position, number of records left) after them.

    A run ends where the size field, repeated every `step` bytes, changes.
    """
    patience = SHORT_RUNS_EXCESS_MAX
    while count and patience:
        byte, second = batch[pos], batch[pos + 1]
        if byte < 0x80:
            length = byte >> 1
            step = length + 1
        elif second < 0x80:
            length = (byte >> 1) + (second << 6) - 64
            step = length + 2
        else:
            break
        if byte & 1 or not length:
            break
        stop = pos + step * min(count, ROW)
        sizes = bytes(batch[pos:stop:step])
        row = len(sizes) - len(sizes.lstrip(sizes[:1]))
        if byte >= 0x80:
            sizes = bytes(batch[pos + 1 : stop : step])
            row = min(row, len(sizes) - len(sizes.lstrip(sizes[:1])))
        pos += row * step
        count -= row
        patience += 1 if row >= ROW_MIN else -1
    return pos, count


def small_records_wrong(batch: Buffer, header: BatchHeader) -> bool:
    """Return whether any record of an uncompressed batch is unusual; `walk` then decides whether Kafka rejects it.

    Checks lengths and headers, but not offset deltas, of which Kafka accepts any.
    """
    pos, end = HEADER_SIZE, header.length + LOG_OVERHEAD
    try:
        for _ in range(header.count):
            size = batch[pos]
            if size < 0x80:
                pos += 1
                stop = pos + (size >> 1)
            elif (second := batch[pos + 1]) < 0x80:
                pos += 2
                stop = pos + ((size & 0x7F | second << 7) >> 1)
            else:
                length, pos = unzigzag32(batch, pos)
                stop = pos + length
            if size & 1 or stop > end:
                return True
            pos += 1
            if batch[pos] > 0x7F:  # The timestamp delta: in three bytes it is below 18 minutes.
                pos += 1
                if batch[pos] > 0x7F:
                    pos += 1
            if batch[pos] > 0x7F or batch[pos + 1] > 0x7F:
                return True
            pos += 2
            for _ in (0, 1):  # Key and value.
                size = batch[pos]
                if size < 0x80:
                    pos += 1 if size & 1 else 1 + (size >> 1)
                elif size & 1:
                    return True
                elif (second := batch[pos + 1]) < 0x80:
                    pos += 2 + ((size & 0x7F | second << 7) >> 1)
                else:
                    length, pos = unzigzag32(batch, pos)
                    pos += length
            headers = batch[pos]
            pos += 1
            if headers:
                pos = _skip_headers(batch, pos, headers)
            if pos != stop:
                return True
    except (IndexError, DecodeError):
        return True
    return pos != end


def _skip_headers(batch: Buffer, pos: int, count: int) -> int:
    """Return the position after a record's headers; 0 if they are too many, too long or invalid for this fast path.

    `count` is the encoded number of headers: a one-byte varint, twice the number.
    """
    if count & 1 or count > 2 * HEADERS_MAX:
        return 0
    for _ in range(count >> 1):
        size = batch[pos]
        if size & 1 or size > 0x7F:
            return 0
        pos += 1 + (size >> 1)
        size = batch[pos]
        if size < 0x80:
            pos += 1 if size & 1 else 1 + (size >> 1)
        elif size & 1 or (second := batch[pos + 1]) > 0x7F:
            return 0
        else:
            pos += 2 + ((size & 0x7F | second << 7) >> 1)
    return pos
