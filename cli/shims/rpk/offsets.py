"""`--offset` of `rpk topic consume`: the range of offsets to read from a partition."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

Bound = Callable[[Cluster, TopicPartition], int]
"""Function that returns the offset of a bound in a partition."""

DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?")
DIGITS: Final = re.compile(r"\d{1,18}")
DATES: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ")
FORMS: Final = "start, end, :end, N, +N, -N, N:M, :M, N:end, @TIME, @TIME:TIME, @TIME:end or @:TIME"


class Range(NamedTuple):
    """Bounds of reading: the first offset, and the offset before which reading ends, None if it never ends."""

    start: Bound
    end: Bound | None


def parse_range(text: str, isolation: int) -> Range:
    """Parse a range of offsets, or after an `@` of times, limited to what a partition has now. Raises CommandError.

    A time is milliseconds (13 digits) or seconds since 1970, a date, or a duration before now: `-1h30m`. The second time may
    be a duration after the first: `@2026-01-31:1h`.
    """

    def end(cluster: Cluster, place: TopicPartition) -> int:
        return list_offset(cluster, *place, LATEST, isolation)

    def not_behind_end(bound: Bound) -> Bound:
        return lambda cluster, place: min(bound(cluster, place), end(cluster, place))

    first, colon, last = text.partition(":")
    if text.startswith("@"):
        first, colon, last = _split_times(text[1:])
        if not first and not last:
            raise CommandError(f"--offset {text!r} lacks a time; it is {FORMS}")
        start = _bound_of_time(first, text) if first else _earliest
        if not last or last == "end":
            return Range(start, end if last else None)
        return Range(start, not_behind_end(_bound_of_time(last, text, _milliseconds(first))))
    if first in ENDS and not colon:
        return Range(ENDS[first], None)
    if first[:1] in ("+", "-") and not colon and DIGITS.fullmatch(first[1:]):
        return Range(_relative(int(first)), None)
    start = _earliest if not first and last else _exact(first, text)
    if not last or last == "end":
        return Range(start, end if last else None)
    if first and DIGITS.fullmatch(last) and int(last) <= int(first):
        raise CommandError(f"--offset {text!r}: it ends before it begins")
    return Range(start, not_behind_end(_exact(last, text)))


def parse_bound(text: str) -> Bound:
    """Parse `end`, an offset, or a time after an `@`. Raises CommandError."""
    if text.startswith("@"):
        return _bound_of_time(text[1:], text)
    if not DIGITS.fullmatch(text) and text != "end":
        raise CommandError(f"--offset {text!r}: it is end, N or @TIME")
    return _latest if text == "end" else lambda cluster, place: int(text)


def _split_times(text: str) -> tuple[str, str, str]:
    """Split two times at the first colon that follows a complete time: times may contain colons (2026-01-31T12:00:00Z)."""
    for at, character in enumerate(text):
        if character == ":" and (not text[:at] or _milliseconds(text[:at]) is not None):
            return text[:at], ":", text[at + 1 :]
    return text, "", ""


def _earliest(cluster: Cluster, place: TopicPartition) -> int:
    return list_offset(cluster, *place, EARLIEST, READ_UNCOMMITTED)


def _latest(cluster: Cluster, place: TopicPartition) -> int:
    return list_offset(cluster, *place, LATEST, READ_UNCOMMITTED)


def _relative(distance: int) -> Bound:
    """Return a bound `distance` after the start or, if negative, before the end; never outside the partition."""

    def bound(cluster: Cluster, place: TopicPartition) -> int:
        start, end = _earliest(cluster, place), _latest(cluster, place)
        return min(end, start + distance) if distance >= 0 else max(start, end + distance)

    return bound


def _exact(text: str, whole: str) -> Bound:
    if not DIGITS.fullmatch(text):
        raise CommandError(f"--offset {whole!r}: {text!r} is no offset; it is {FORMS}")
    return lambda cluster, place: min(max(int(text), _earliest(cluster, place)), _latest(cluster, place))


def _bound_of_time(text: str, whole: str, since_ms: int | None = None) -> Bound:
    """Return a bound at the first record of this time or later. `since_ms`: start of a duration without a minus, in ms."""
    timestamp_ms = _milliseconds(text)
    if timestamp_ms is None and since_ms is not None and (duration_ms := _duration_ms(text)) is not None:
        timestamp_ms = since_ms + duration_ms
    if timestamp_ms is None:
        raise CommandError(f"--offset {whole!r}: {text!r} is no time: 13 digits, 9 or 10 digits, a date, or -1h30m")

    def bound(cluster: Cluster, place: TopicPartition) -> int:
        offset = list_offset(cluster, *place, timestamp_ms, READ_UNCOMMITTED)
        return offset if offset >= 0 else _latest(cluster, place)

    return bound


def _milliseconds(text: str) -> int | None:
    """Parse a time to milliseconds since 1970; return None if `text` is not a time."""
    if text.isascii() and text.isdecimal():
        return {13: int(text), 10: int(text) * 1000, 9: int(text) * 1000}.get(len(text))
    if text.startswith("-") and (ago_ms := _duration_ms(text[1:])) is not None:
        return time.time_ns() // 1_000_000 - ago_ms
    for form in DATES:
        try:
            return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            continue
    return None


def _duration_ms(text: str) -> int | None:
    """Parse a duration such as `1h30m` to milliseconds; return None if `text` is not a duration."""
    parts = DURATION.fullmatch(text)
    if parts is None or not any(parts.groups()):
        return None
    hours, minutes, seconds, milliseconds = (int(part or 0) for part in parts.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


ENDS: Final[dict[str, Bound]] = {"start": _earliest, "oldest": _earliest, "end": _latest, "newest": _latest}
"""Name of an end of a partition -> bound."""
