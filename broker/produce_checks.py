"""Looks into a batch as far as that pays: timestamps always, records where reading them is cheap or needed."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.batch_check import READ_MAX, check_records, records_fill, small_records_wrong
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import BatchIndexAndErrorMessage
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import CODEC_MASK, HEADER_SIZE, BatchHeader, Record, read_records
from stuntbroker.storage.log_config import NO_LIMIT, LogConfig

# Unlike Kafka: larger ones are stored unread, so that produce stays as fast as the network and a compression bomb costs nothing.
OPENED_BELOW: Final = 16_384
"""Compressed batches of fewer bytes are opened and read."""
OPENED_MAX: Final = 1 << 20
"""Bytes that such a batch may open to; one that would open to more is stored unread too."""
OPENED_FOR_KEYS_MAX: Final = 64 << 20

NO_TIMESTAMP: Final = -1

_FINE: Final = (ErrorCode.NONE, None)


def check_content(
    batch: Buffer, header: BatchHeader, config: LogConfig, now_ms: int
) -> tuple[ErrorCode, str | None]:
    """Whether the records are what the header says, as far as they are looked at."""
    if header.max_timestamp - now_ms > config.timestamp_after_ms_max and not config.log_append_time:
        return ErrorCode.INVALID_TIMESTAMP, f"the timestamp {header.max_timestamp} is too far in the future"
    if config.timestamp_before_ms_max < NO_LIMIT and record_errors(
        ErrorCode.INVALID_TIMESTAMP, batch, header, config, now_ms
    ):
        return ErrorCode.INVALID_TIMESTAMP, "a timestamp is too far in the past"
    codec = header.attributes & CODEC_MASK
    if codec:
        if config.compact or len(batch) < OPENED_BELOW:
            return _check_compressed(batch, header, codec, config.compact)
        return _FINE
    if config.compact:
        wrong = check_records(header, batch, HEADER_SIZE, keys_needed=True)
        return (ErrorCode.INVALID_RECORD, wrong) if wrong else _FINE
    if header.count <= READ_MAX:
        if small_records_wrong(batch, header):
            wrong = check_records(header, batch, HEADER_SIZE, keys_needed=False)
            return ErrorCode.INVALID_RECORD, wrong or "a record is not as its lengths say"
    elif not records_fill(batch, header):
        return ErrorCode.INVALID_RECORD, "the records do not fill the batch as their lengths say"
    return _FINE


def record_errors(
    error: ErrorCode, batch: Buffer, header: BatchHeader, config: LogConfig, now_ms: int
) -> list[BatchIndexAndErrorMessage]:
    """Which records are to blame for an error that `check_content` found, where it is a matter of single records."""
    if error == ErrorCode.INVALID_TIMESTAMP:
        early, late = now_ms - config.timestamp_before_ms_max, now_ms + config.timestamp_after_ms_max

        def wrong(record: Record) -> str | None:
            if config.log_append_time or record.timestamp == NO_TIMESTAMP or early <= record.timestamp <= late:
                return None
            return (
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{early}, {late}]"
            )
    elif error == ErrorCode.INVALID_RECORD and config.compact:

        def wrong(record: Record) -> str | None:
            return "Compacted topic cannot accept message without key" if record.key is None else None
    else:
        return []
    try:
        codec = header.attributes & CODEC_MASK
        if codec:
            from stuntbroker.storage.compression import decompress

            records = read_records(header, decompress(codec, batch[HEADER_SIZE:], OPENED_FOR_KEYS_MAX), 0)
        else:
            records = read_records(header, batch, HEADER_SIZE)
        said = [(number, wrong(record)) for number, record in enumerate(records)]
    except ValueError:  # What cannot be read is told by its error alone.
        return []
    return [BatchIndexAndErrorMessage(number, message) for number, message in said if message is not None]


def _check_compressed(
    batch: Buffer, header: BatchHeader, codec: int, compact: bool
) -> tuple[ErrorCode, str | None]:
    from stuntbroker.storage.compression import CompressionError, TooLarge, decompress

    try:
        payload = decompress(codec, batch[HEADER_SIZE:], OPENED_FOR_KEYS_MAX if compact else OPENED_MAX)
    except TooLarge as fault:
        return (ErrorCode.INVALID_RECORD, str(fault)) if compact else _FINE
    except CompressionError as fault:
        return ErrorCode.UNKNOWN_SERVER_ERROR, str(fault)
    wrong = check_records(header, payload, 0, keys_needed=compact)
    return (ErrorCode.INVALID_RECORD, wrong) if wrong else _FINE
