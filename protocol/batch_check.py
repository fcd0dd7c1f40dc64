"""What a client's record batch must be before it is stored. Pure: bytes in, a verdict out.

The order is Kafka's (ProduceRequest, UnifiedLog, LogValidator): shape, base offset, size, CRC, then header, then records.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer, DecodeError
from stuntbroker.protocol.records import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_records,
    unzigzag,
)

ZSTD: Final = 4
PRODUCE_ZSTD_FROM: Final = 7
_unpack_header = HEADER.unpack_from


class Verdict(NamedTuple):
    """`header` is None when the batch is refused."""

    header: BatchHeader | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def _refuse(error: ErrorCode, message: str) -> Verdict:
    return Verdict(None, error, message)


def check_batch(records: Buffer | None, version: int, size_max: int) -> Verdict:
    """`version` is the Produce request's. The batch may be followed by a torn piece, which the caller drops."""
    if not records or len(records) < LOG_OVERHEAD + 5:
        return _refuse(ErrorCode.INVALID_RECORD, "the request has no record batch for this partition")
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < 14:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {length}")
    if length + LOG_OVERHEAD > len(records):
        return _refuse(ErrorCode.INVALID_RECORD, "the request has no whole record batch for this partition")
    if records[16] != 2:
        return _refuse(ErrorCode.INVALID_RECORD, f"only record batches of magic 2 are taken, not {records[16]}")
    if length + LOG_OVERHEAD < HEADER_SIZE:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {length}")
    header = BatchHeader._make(_unpack_header(records, 0))
    if header.attributes & CODEC_MASK == ZSTD and version < PRODUCE_ZSTD_FROM:
        return _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {PRODUCE_ZSTD_FROM} or newer")
    rest = len(records) - length - LOG_OVERHEAD
    if rest >= LOG_OVERHEAD + 5 and _another_batch(records, length + LOG_OVERHEAD):
        return _refuse(ErrorCode.INVALID_RECORD, "a partition takes one record batch a request")
    if header.base_offset != 0:
        return _refuse(ErrorCode.INVALID_RECORD, f"the base offset must be 0, it is {header.base_offset}")
    if length + LOG_OVERHEAD > size_max:
        return _refuse(ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {length + LOG_OVERHEAD} bytes, {size_max} are allowed")
    if crc32c(memoryview(records)[21 : length + LOG_OVERHEAD]) != header.crc:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, "the record batch has a wrong CRC")
    return _check_header(header)


def _another_batch(records: Buffer, at: int) -> bool:
    length = int.from_bytes(records[at + 8 : at + 12], "big", signed=True)
    return length < 14 or at + length + LOG_OVERHEAD <= len(records)


def _check_header(header: BatchHeader) -> Verdict:
    if header.attributes & CONTROL:
        return _refuse(ErrorCode.INVALID_RECORD, "clients cannot write control batches")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        return _refuse(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.count} records cannot have the last offset delta {header.last_offset_delta}",
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _refuse(ErrorCode.INVALID_RECORD, "a batch with a producer id needs a base sequence")
    if header.attributes & CODEC_MASK > ZSTD:
        return _refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.attributes & CODEC_MASK} is unknown")
    return Verdict(header)


def records_fill(batch: Buffer, header: BatchHeader) -> bool:
    """Whether the lengths of an uncompressed batch's records lead exactly to its end: 0.1 us a record."""
    pos, end = HEADER_SIZE, header.length + LOG_OVERHEAD
    try:
        for _ in range(header.count):
            byte = batch[pos]
            if byte < 0x80:
                pos += 1 + (byte >> 1)
                continue
            second = batch[pos + 1]
            if second < 0x80:
                pos += 2 + ((byte & 0x7F | second << 7) >> 1)
                continue
            length, pos = unzigzag(batch, pos)
            pos += length
            if length < 0 or pos > end:
                return False
    except IndexError:
        return False
    return pos == end


def small_records_wrong(batch: Buffer, header: BatchHeader) -> bool:
    """Whether any record of an uncompressed batch of at most 64 is not as it must be; headers are left unread."""
    pos, end = HEADER_SIZE, header.length + LOG_OVERHEAD
    try:
        for number in range(header.count):
            stop = batch[pos]
            if stop < 0x80:
                pos += 1
                stop = pos + (stop >> 1)
            else:
                stop, pos = unzigzag(batch, pos)
                stop += pos
            if stop > end:
                return True
            pos += 1
            while batch[pos] > 0x7F:  # the timestamp's difference
                pos += 1
            if batch[pos + 1] != number << 1:
                return True
            pos += 2
            for _ in (0, 1):  # key and value
                length = batch[pos]
                if length < 0x80:
                    pos += 1
                    length = (length >> 1) ^ -(length & 1)
                else:
                    length, pos = unzigzag(batch, pos)
                if length > 0:
                    pos += length
                elif length < -1:
                    return True
            if pos >= stop or (batch[pos] == 0 and pos + 1 != stop):
                return True
            pos = stop
    except (IndexError, DecodeError):
        return True
    return pos != end


def check_records(header: BatchHeader, payload: Buffer, pos: int, *, keys_needed: bool) -> str | None:
    """Reads every record of an uncompressed payload; what is wrong with the first that is wrong."""
    try:
        for number, record in enumerate(read_records(header, payload, pos)):
            if record.offset - header.base_offset != number:
                return f"record {number} has the offset delta {record.offset - header.base_offset}"
            if keys_needed and record.key is None:
                return "a compacted topic takes no record without a key"
    except DecodeError as fault:
        return str(fault)
    return None
