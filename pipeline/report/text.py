"""Numbers, times and names as a reader likes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
USABLE_MS: Final = 7_258_118_400_000
"""The year 2200. A time after it, or below 0, is nobody's clock: it is shown as a number and left out of figures."""
NAME_LENGTH: Final = 200
"""Characters of a name, or of another text that somebody else chose, that are shown."""
LABEL_LENGTH: Final = 32
NOTHING: Final = "\u2013"
"""A dash, where there is nothing to say."""
_GLUE: Final = "\u00a0"
"""Between a number and its unit, so that no line ends there."""
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))


def shown(text: str, length: int = NAME_LENGTH) -> str:
    """A name that clients chose, so that nothing in it can pass for something else: what does not print, and what turns
    the direction of writing, is told as an escape; what is too long is cut in the middle."""
    if len(text) > length:
        text = f"{text[: length * 2 // 3]}…{text[-(length // 3 - 1) :]}"
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def label(text: str) -> str:
    """Escape text for the inside of a figure, whose texts are a kind of HTML: `<b>` there means bold."""
    return shown(text, LABEL_LENGTH).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def place(topic: str | None, partition: int | None) -> str:
    """Return `topic-partition`, as far as they are known."""
    if topic is None:
        return NOTHING
    return shown(topic) if partition is None else f"{shown(topic)}-{partition}"


def size(number: float) -> str:
    """Bytes in the unit that gives at most three digits before the point."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1_000 or unit == "TB":
            break
        number /= 1_000
    return f"{number:.0f}{_GLUE}{unit}" if unit == "B" or number >= 100 else f"{number:.3g}{_GLUE}{unit}"


def duration(ms: int) -> str:
    """Logs have whole milliseconds: less is 0 in them."""
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
    """What a finding says, with long times told as people do besides."""
    return _LONG.sub(lambda match: f"{match[0]} ({duration(int(match[0][:-3]))})", shown(evidence, length))


def is_usable(ms: int | None) -> bool:
    """Whether a time in ms can be shown as a date."""
    return ms is not None and 0 <= ms < USABLE_MS


def instant(ms: int | None) -> str:
    """In UTC, to the millisecond."""
    if ms is None or ms == -1:
        return NOTHING
    if not is_usable(ms):
        return f"{ms} ms"
    moment = EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ms % 1_000:03d}Z"


def ratio(part: int, whole: int) -> str:
    """Return a share in percent, in words where it is too small or too near to 100 to be told as a number."""
    if not whole:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return f"<{_GLUE}0.1{_GLUE}%"
    if 99.9 < percent < 100:
        return f">{_GLUE}99.9{_GLUE}%"
    return f"{percent:.{1 if percent < 10 or 99 < percent < 100 else 0}f}{_GLUE}%"
