"""Every intended difference from Apache Kafka is marked in the code and listed in docs/differences.md."""

from __future__ import annotations

import re

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, text_of

MARKER = "# Unlike Kafka:"
DOCUMENT = ROOT / "docs" / "differences.md"


def marked_files() -> set[str]:
    return {str(path) for path in files_of(FRONT_DOOR, *ROOMS) if MARKER in text_of(path)}


def listed_files() -> set[str]:
    """Return the files in the last columns of the document's tables."""
    rows = re.findall(r"^\|.*\|([^|]*)\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return {path for cell in rows for path in re.findall(r"`([\w/]+\.py)`", cell)}


def test_the_document_lists_the_files_with_a_difference_and_no_others() -> None:
    if not DOCUMENT.is_file():
        if marked_files():
            pytest.fail(f"docs/differences.md is missing; it must list {', '.join(sorted(marked_files()))}")
        return

    assert sorted(marked_files() - listed_files()) == [], "not listed in docs/differences.md"
    assert sorted(listed_files() - marked_files()) == [], f"listed in docs/differences.md, but without {MARKER!r}"


def test_a_difference_is_marked_in_the_one_form_that_can_be_searched_for() -> None:
    wrong = [
        f"{path}:{number}: {line.strip()}"
        for path in files_of(FRONT_DOOR, *ROOMS)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if re.search(r"unlike (apache )?kafka\b", line, re.IGNORECASE) and MARKER not in line
    ]

    assert wrong == []
