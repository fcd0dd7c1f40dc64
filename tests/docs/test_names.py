"""The files and folders named by the documents for developers exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (".", "broker", "control", "docs", "tests/broker")
"""Folders that names in the documents may be relative to."""
DOCUMENTS = ("CONTRIBUTING.md", "docs/architecture.md")


def names_in(document: str) -> list[str]:
    """Return all texts in back-ticks and all link targets that look like paths."""
    text = (ROOT / document).read_text()
    quoted = re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", text)
    return sorted({*quoted, *re.findall(r"\]\(([\w./-]+)\)", text)} - {"broker/handlers/kNN_name.py"})


@pytest.mark.parametrize(("document", "name"), [(each, name) for each in DOCUMENTS for name in names_in(each)])
def test_a_path_in_a_document_exists(document: str, name: str) -> None:
    assert any((ROOT / place / name).exists() for place in PLACES), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_make_target_in_a_document_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text()))

    assert named and named <= targets
