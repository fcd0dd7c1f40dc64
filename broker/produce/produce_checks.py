"""Validation of a batch's content: timestamps always, records only if reading them is cheap or necessary.

The cost of decompressing and reading is limited for each request (`ReadBudget`), because a few hundred bytes may expand to
a megabyte, a request may contain thousands of such batches, and one event loop serves all clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stuntbroker.protocol.batches.budget import BYTES_MAX, RECORD_STEPS, BudgetExceeded, ReadBudget
from stuntbroker.protocol.batches.check import READ_MAX, records_fill, small_records_wrong
from stuntbroker.protocol.batches.records import (
    CODEC_MASK,
    FLAGS_AT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    with_max_timestamp,
)
from stuntbroker.protocol.batches.walk import ANY_TIME, FAULTS_MAX, Walked, spans, walk
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import BatchIndexAndErrorMessage
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.produce_codec import TopicBatches
from stuntbroker.storage.log_config import NO_LIMIT, LogConfig

# Unlike Kafka: larger batches are stored unread, so that Produce is as fast as the network and compression bombs cost little.
OPENED_BELOW: Final = 16_384
"""Bytes below which a compressed batch is decompressed and read."""
OPENED_MAX: Final = 1 << 20
"""Maximum decompressed bytes of such a batch; one that expands to more is stored unread too."""

_OK: Final = ErrorCode.NONE


class ContentVerdict(NamedTuple):
    """Result of validating a batch's content: NONE, or an error, a message and the invalid records."""

    error: ErrorCode = _OK
    message: str | None = None
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()


_FINE: Final = ContentVerdict()


def has_transactional(topic_batches: TopicBatches) -> bool:
    """Return whether any partition's first batch is flagged as transactional, even for a partition that does not exist."""
    batches = [records for _, _, parts in topic_batches for records in parts.values() if records is not None]
    return any(
        len(each) >= HEADER_SIZE and each[MAGIC_AT] == MAGIC and each[FLAGS_AT] & TRANSACTIONAL for each in batches
    )


def with_latest_timestamp(batch: Buffer, header: BatchHeader, budget: ReadBudget) -> tuple[Buffer, BatchHeader]:
    """Return a batch whose max timestamp is below its base timestamp, and its header, with the latest timestamp of its records.

    Kafka computes the max timestamp of every batch; IBM/sarama up to 1.45.0 always sends -1. A batch with
    invalid records stays as it is, for `check_content`.
    """
    latest = NO_TIMESTAMP
    try:
        payload, pos = budget.opened(header, batch)
        for span in spans(header, payload, pos):
            budget.steps -= RECORD_STEPS
            if budget.steps < 0:
                raise BudgetExceeded
            latest = max(latest, span.timestamp)
    except BudgetExceeded:
        latest = max(latest, header.base_timestamp)  # Unlike Kafka: the work of reading records is limited.
    except ValueError:
        return batch, header
    if latest == header.max_timestamp:
        return batch, header
    batch = with_max_timestamp(batch, latest)
    return batch, read_header(batch)


def check_content(
    batch: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    budget: ReadBudget,
    is_filled: bool | None = None,
    is_first: bool | None = None,
) -> ContentVerdict:
    """Validate the records of a batch against its header and the topic's configuration, as far as they are read.

    `is_filled`: result of `records_fill` for an uncompressed batch if it was already computed, else None. `is_first`: whether no
    other batch of the request has used the budget; None if this one has not used it either.
    """
    codec, by_client = header.attributes & CODEC_MASK, not config.log_append_time
    too_late = by_client and header.max_timestamp > config.timestamp_max(now_ms)
    sets_log_append_time = header.attributes & LOG_APPEND_TIME and (
        not by_client or header.max_timestamp == NO_TIMESTAMP
    )
    if config.compact or too_late or sets_log_append_time or config.timestamp_before_ms_max < NO_LIMIT:
        read = True
    elif codec:
        read = len(batch) < OPENED_BELOW
    elif header.count <= READ_MAX:
        read = small_records_wrong(batch, header)
    else:
        read = False
    times = ANY_TIME
    if by_client:
        times = now_ms - config.timestamp_before_ms_max, config.timestamp_max(now_ms)
    whole = budget.is_whole if is_first is None else is_first
    try:
        walked = _read(batch, header, config.compact, times, budget) if read else None
    except BudgetExceeded:
        if config.compact:
            return _too_much(whole)
        walked = None
    except ValueError as fault:
        return ContentVerdict(ErrorCode.UNKNOWN_SERVER_ERROR, str(fault))
    if walked is not None:
        verdict = _verdict_of(walked, header, times, bool(sets_log_append_time))
        if verdict.error != _OK:
            return verdict
    elif not codec and not (records_fill(batch, header) if is_filled is None else is_filled):
        return ContentVerdict(
            ErrorCode.INVALID_RECORD, "the lengths of the records do not add up to the size of the batch"
        )
    if too_late:
        return ContentVerdict(
            ErrorCode.INVALID_TIMESTAMP, f"the timestamp {header.max_timestamp} is too far in the future"
        )
    return (
        ContentVerdict(ErrorCode.INVALID_TIMESTAMP, "a producer cannot set the timestamp type LogAppendTime")
        if sets_log_append_time
        else _FINE
    )


def _read(batch: Buffer, header: BatchHeader, compact: bool, times: tuple[int, int], budget: ReadBudget) -> Walked:
    """Decompress a batch and walk through its records. Raises BudgetExceeded, and CompressionError for an invalid payload."""
    payload, pos = budget.opened(header, batch, BYTES_MAX if compact else OPENED_MAX)
    walked = walk(payload, pos, header, budget.steps, compact, times)
    budget.steps = walked.steps
    if walked.unread and not walked.faults:
        raise BudgetExceeded
    return walked


def _verdict_of(
    walked: Walked, header: BatchHeader, times: tuple[int, int], sets_log_append_time: bool
) -> ContentVerdict:
    """Return the error that Kafka returns for the findings, with the records concerned."""
    if walked.wrong is not None:
        return ContentVerdict(ErrorCode.INVALID_RECORD, walked.wrong)
    faults = walked.faults
    if sets_log_append_time:
        blamed = dict(faults)
        faults = tuple((n, blamed.get(n, header.max_timestamp)) for n in range(min(header.count, FAULTS_MAX)))
    if faults:
        errors = []
        for number, timestamp in faults:
            if timestamp is None:
                why = "Compacted topic cannot accept message without key"
            elif sets_log_append_time:
                why = "Invalid timestamp type: a producer should not set it to LogAppendTime"
            else:
                why = (
                    f"Timestamp {timestamp} of message with offset {number} is out of range. "
                    f"The timestamp should be within [{times[0]}, {times[1]}]"
                )
            errors.append(BatchIndexAndErrorMessage(number, why))
        if any(timestamp is not None for _, timestamp in faults):
            return ContentVerdict(ErrorCode.INVALID_TIMESTAMP, "records have a timestamp that is out of range", errors)
        return ContentVerdict(
            ErrorCode.INVALID_RECORD, "a compacted topic does not accept records without a key", errors
        )
    if walked.misplaced is not None and header.attributes & CODEC_MASK:
        return ContentVerdict(ErrorCode.UNKNOWN_SERVER_ERROR, walked.misplaced)  # Kafka fails to rewrite such a batch.
    return _FINE


def _too_much(whole: bool) -> ContentVerdict:
    """Return the error of a batch for a compacted topic whose keys cannot all be checked within the budget.

    If the batch alone exceeds the budget (`whole`), the client splits it on MESSAGE_TOO_LARGE; if other batches of its request
    have used up the budget, the client retries.
    """
    if whole:
        return ContentVerdict(ErrorCode.MESSAGE_TOO_LARGE, "the batch is too large for a compacted topic: split it")
    return ContentVerdict(ErrorCode.NOT_ENOUGH_REPLICAS, "the batches of the request are too large together: retry")
