"""Format numbers, times and names for readers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
USABLE_MS: Final = 7_258_118_400_000
"""The year 2200 in ms. Later or negative times are not plausible: they are shown as numbers and left out of figures."""
NAME_LENGTH: Final = 200
"""Maximum number of characters shown of a name or another text from outside."""
LABEL_LENGTH: Final = 32
NOTHING: Final = "\u2013"
"""Placeholder (a dash) for a missing value."""
_GLUE: Final = "\u00a0"
"""No-break space between a number and its unit."""
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))


def shown(text: str, length: int = NAME_LENGTH) -> str:
    """Return a client-chosen text that is safe to display.

    Characters that do not print or that change the writing direction are escaped; long texts are cut in the middle.
    """
    if len(text) > length:
        text = f"{text[: length * 2 // 3]}…{text[-(length // 3 - 1) :]}"
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def label(text: str) -> str:
    """Escape text for a figure: plotly interprets HTML tags such as `<b>`."""
    return shown(text, LABEL_LENGTH).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def place(topic: str | None, partition: int | None) -> str:
    """Return `topic-partition`, as far as they are known."""
    if topic is None:
        return NOTHING
    return shown(topic) if partition is None else f"{shown(topic)}-{partition}"


def size(number: float) -> str:
    """Format a number of bytes in a unit that leaves at most three digits before the point."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1_000 or unit == "TB":
            break
        number /= 1_000
    return f"{number:.0f}{_GLUE}{unit}" if unit == "B" or number >= 100 else f"{number:.3g}{_GLUE}{unit}"


def duration(ms: int) -> str:
    """Format a duration; logs have whole milliseconds, so 0 is shown as less than 1 ms."""
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1:
        return "< 1 ms"
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.3g} s"
    parts = []
    for unit, name in _UNITS:
        number, ms = divmod(ms, unit)
        if number:
            parts.append(f"{number} {name}")
    if ms >= 1_000:
        parts.append(f"{ms // 1_000} s")
    return " ".join(parts[:2])


_LONG = re.compile(r"(?<![\w.-])\d{5,15} ms\b")


def said(evidence: str, length: int = 1_000) -> str:
    """Return the evidence of a finding, with long times also given in larger units."""
    return _LONG.sub(lambda match: f"{match[0]} ({duration(int(match[0][:-3]))})", shown(evidence, length))


def is_usable(ms: int | None) -> bool:
    """Whether a time in ms can be shown as a date."""
    return ms is not None and 0 <= ms < USABLE_MS


def instant(ms: int | None) -> str:
    """Format a time in UTC, to the millisecond."""
    if ms is None or ms == -1:
        return NOTHING
    if not is_usable(ms):
        return f"{ms} ms"
    moment = EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ms % 1_000:03d}Z"


def ratio(part: int, whole: int) -> str:
    """Format a share in percent; shares very close to 0 or 100 % are shown as `< 0.1 %` or `> 99.9 %`."""
    if not whole:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return f"<{_GLUE}0.1{_GLUE}%"
    if 99.9 < percent < 100:
        return f">{_GLUE}99.9{_GLUE}%"
    return f"{percent:.{1 if percent < 10 or 99 < percent < 100 else 0}f}{_GLUE}%"
