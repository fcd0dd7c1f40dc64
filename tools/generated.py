"""Write or check pages, and parts of pages, that are generated from the code."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(page: Path, text: str, command: str) -> int:
    """Write a page, or with `--check` only check that it has this text; return the exit status.

    `command` is the command that writes the page, for the error message.
    """
    if "--check" not in sys.argv:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{page} is not up to date: {command}\n")
    return 1


def with_part(page: Path, begin: str, end: str, part: str) -> str:
    """Return the text of a page, with the lines between two comments replaced by `part`."""
    before, found_begin, after_begin = page.read_text(encoding="utf-8").partition(f"{begin}\n")
    _, found_end, after_end = after_begin.partition(end)
    if not (found_begin and found_end):
        raise SystemExit(f"{page}: it has no part between {begin} and {end}")
    return f"{before}{begin}\n{part}{end}{after_end}"
