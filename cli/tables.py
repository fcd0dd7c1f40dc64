"""Output for a terminal: aligned tables, timestamps, and escaped text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

YEAR_10000_MS: Final = 253_402_300_800_000


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a line of headers and a line per row, in aligned columns that are two spaces apart."""
    lines = [list(headers), *([shown(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headers))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def shown(text: str) -> str:
    """Return text on one line, with unprintable characters escaped as in Python; an empty text becomes `""`."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text) or '""'


def instant(ms: int | None) -> str:
    """Format milliseconds since 1970 as a UTC timestamp; the number itself outside 1970 to 9999, `-` for None and -1."""
    if ms is None or ms == -1:
        return "-"
    if not 0 <= ms < YEAR_10000_MS:
        return str(ms)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
