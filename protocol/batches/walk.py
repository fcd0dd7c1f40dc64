"""Validation of the records of a batch in a bounded number of steps, without creating objects for them.

A few hundred bytes of zstd may expand to a megabyte with a hundred thousand records, or with one record of half a million
headers. Therefore every record and every header counts as a step, unusual ones as several, and the caller sets the maximum
number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from stuntbroker.protocol.batches.records import LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader, unzigzag, unzigzag32
from stuntbroker.protocol.primitives import Buffer, DecodeError

NEAR_MS: Final = 1 << 20
"""Maximum distance in ms from the base timestamp of a record whose timestamp delta takes at most three bytes."""
UNUSUAL_STEPS: Final = 8
"""Steps of a record with headers, or with lengths of three bytes or more."""
LONG_HEADER_STEPS: Final = 4
"""Additional steps of a header with a length of more than one byte."""
FAULTS_MAX: Final = 1_000
"""Maximum number of invalid records that are reported one by one, which limits the size of the response."""
ANY_TIME: Final = (-(1 << 70), 1 << 70)


class Walked(NamedTuple):
    """Findings of a walk, in order of precedence; Kafka reports the first."""

    steps: int
    """Remaining steps."""
    unread: bool = False
    """Whether the steps ran out, so that the remaining records were not read."""
    wrong: str | None = None
    """Why the bytes are not valid records."""
    faults: tuple[tuple[int, int | None], ...] = ()
    """(number of a record, its timestamp if that is out of range, None if the key is missing), at most FAULTS_MAX."""
    misplaced: str | None = None
    """Description of the first record whose offset delta is not its position in the batch."""


class _StepsExhausted(Exception):
    """No steps remain."""


def walk(
    payload: Buffer,
    pos: int,
    header: BatchHeader,
    steps: int,
    keys_needed: bool = False,
    times: tuple[int, int] = ANY_TIME,
) -> Walked:
    """Validate the records from `pos` to the end of the payload as Kafka does (LogValidator, DefaultRecord).

    `times`: smallest and largest timestamp allowed, in ms; -1 (no timestamp) is always allowed.
    """
    number, end, count = 0, len(payload), header.count
    base, fixed = header.base_timestamp, header.attributes & LOG_APPEND_TIME
    near = not fixed and times[0] + NEAR_MS <= base <= times[1] - NEAR_MS
    faults: list[tuple[int, int | None]] = []
    misplaced: str | None = None
    try:
        while number < count:
            if near:
                before = number
                number, pos = _skip_simple_records(payload, pos, number, min(count, number + steps), keys_needed)
                steps -= number - before
                if number == count:
                    break
            if steps < UNUSUAL_STEPS:
                return Walked(0, True, None, tuple(faults), misplaced)
            pos, delta, offset_delta, has_key, steps = _check_record(payload, pos, end, steps - UNUSUAL_STEPS)
            timestamp = header.max_timestamp if fixed else base + delta
            if keys_needed and not has_key:
                fault: tuple[int, int | None] | None = number, None
            elif not times[0] <= timestamp <= times[1] and timestamp != NO_TIMESTAMP:
                fault = number, timestamp
            else:
                fault = None
            if fault is not None and len(faults) < FAULTS_MAX:
                faults.append(fault)
            if offset_delta != number and misplaced is None:
                misplaced = f"record {number} has the offset delta {offset_delta}"
            number += 1
        if pos != end:
            raise DecodeError(f"{end - pos} bytes follow the last of {count} records", pos)
    except _StepsExhausted:
        return Walked(0, True, None, tuple(faults), misplaced)
    except DecodeError as decode_error:
        return Walked(steps, wrong=f"record {number}: {decode_error}" if number < count else str(decode_error))
    except IndexError:
        return Walked(steps, wrong=f"record {number} of {count} ends too early")
    return Walked(steps, False, None, tuple(faults), misplaced)


def _skip_simple_records(payload: Buffer, pos: int, number: int, limit: int, keys_needed: bool) -> tuple[int, int]:
    """Skip valid records with small lengths and no headers, up to record `limit`.

    Return (number, position) of the first record that was not skipped.
    """
    start, keyless_bits = pos, 1 if keys_needed else 0
    try:
        while number < limit:
            length = payload[pos]
            long = 0  # Above 0x7f if a varint has more bytes than this fast path reads.
            pos += 1
            if length > 0x7F:
                long = payload[pos]
                length += (long - 1) << 7
                pos += 1
            stop = pos + (length >> 1)
            pos += 1
            if payload[pos] > 0x7F:
                pos += 1
                if payload[pos] > 0x7F:
                    pos += 1
            long |= payload[pos]
            delta = payload[pos + 1]
            pos += 2
            if delta > 0x7F:
                delta += (payload[pos] - 1) << 7
                pos += 1
                if delta > 0x3FFF:
                    long |= payload[pos]
                    delta += (payload[pos] - 1) << 14
                    pos += 1
            key = payload[pos]
            pos += 1
            if key > 0x7F:
                long |= payload[pos]
                key += (payload[pos] - 1) << 7
                pos += 1
            if not key & 1:
                pos += key >> 1
            size = payload[pos]
            pos += 1
            if size > 0x7F:
                long |= payload[pos]
                size += (payload[pos] - 1) << 7
                pos += 1
            if not size & 1:
                pos += size >> 1
            if (
                payload[pos]
                or pos + 1 != stop
                or delta != number << 1
                or long > 0x7F
                or length & 1
                or key & keyless_bits
            ):
                return number, start
            pos = start = stop
            number += 1
    except IndexError:
        return number, start
    return number, pos


def _check_record(payload: Buffer, pos: int, end: int, steps: int) -> tuple[int, int, int, bool, int]:
    """Return (end, timestamp delta, offset delta, whether it has a key, remaining steps) for the record at `pos`."""
    length, pos = unzigzag32(payload, pos)
    stop = pos + length
    if length < 0 or stop > end:
        raise DecodeError("it runs past the end", pos)
    delta, at = unzigzag(payload, pos + 1)
    offset_delta, at = unzigzag32(payload, at)
    size, at = unzigzag32(payload, at)
    has_key = size >= 0
    at += max(size, 0)
    size, at = unzigzag32(payload, at)
    at += max(size, 0)
    headers, at = unzigzag32(payload, at)
    if headers < 0 or headers > stop - at:
        raise DecodeError(f"it cannot have {headers} headers", at)
    steps -= headers
    for _ in range(headers if steps >= 0 else 0):
        size = payload[at]
        if size < 0x80:
            negative = size & 1
            at += 1 + (size >> 1)
        else:
            size, at = unzigzag32(payload, at)
            negative = size < 0
            at += size
            steps -= LONG_HEADER_STEPS
        if negative:
            raise DecodeError("a header has no name", at)
        size = payload[at]
        if size < 0x80:
            at += 1 if size & 1 else 1 + (size >> 1)
            continue
        size, at = unzigzag32(payload, at)
        at += max(size, 0)
        steps -= LONG_HEADER_STEPS
        if steps < 0:
            break
    if steps < 0:
        raise _StepsExhausted
    if at != stop:
        raise DecodeError("it has a wrong length", at)
    return stop, delta, offset_delta, has_key, steps


class Span(NamedTuple):
    """The position of a record in its payload, its key, and whether it is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool
    start: int
    """Position of the record's length field."""
    stop: int


def spans(header: BatchHeader, payload: Buffer, pos: int = 0) -> Iterator[Span]:
    """Yield the records of a stored batch; headers are skipped. Raises DecodeError if a length or offset is invalid."""
    end, fixed = len(payload), header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    base, base_offset, last_delta = header.base_timestamp, header.base_offset, header.last_offset_delta
    for number in range(header.count):
        start = pos
        try:
            length = payload[pos]
            if length < 0x80 and not length & 1:
                pos += 1
                length >>= 1
            else:
                length, pos = unzigzag32(payload, pos)
            stop = pos + length
            if length < 0 or stop > end:
                raise DecodeError(f"record {number} runs past the end", pos)
            delta = payload[pos + 1]
            if delta:
                delta, at = unzigzag(payload, pos + 1)
            else:
                at = pos + 2
            offset_delta, at = unzigzag32(payload, at)
            size = payload[at]
            if size > 1:
                size, at = unzigzag32(payload, at)
                key = bytes(payload[at : at + size]) if size >= 0 else None
                at += size if size > 0 else 0
            else:
                key = None if size else b""
                at += 1
            is_tombstone = payload[at] & 1
            if payload[at] > 1:
                size, at = unzigzag32(payload, at)
                at += size if size > 0 else 0
        except IndexError as fault:
            raise DecodeError(f"record {number} ends too early", end) from fault
        if at > stop or not 0 <= offset_delta <= last_delta:
            raise DecodeError(f"record {number} does not match its lengths, or is outside its batch", at)
        timestamp = base + delta if fixed is None else fixed
        yield Span(base_offset + offset_delta, timestamp, key, is_tombstone == 1, start, stop)
        pos = stop
