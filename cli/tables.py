"""How things are shown to a person: aligned columns, points in time, names that cannot harm a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

YEAR_10000_MS: Final = 253_402_300_800_000


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A line of headers and a line per row; columns are two spaces apart and as wide as they must be."""
    lines = [list(headers), *([shown(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headers))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def shown(text: str) -> str:
    """`text` on one line: whatever a terminal would obey, or not show, is escaped as in Python; nothing is `""`."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text) or '""'


def instant(ms: int | None) -> str:
    """Milliseconds since 1970 as a date in UTC; the number itself where there is no such date."""
    if ms is None or ms == -1:
        return "-"
    if not 0 <= ms < YEAR_10000_MS:
        return str(ms)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
