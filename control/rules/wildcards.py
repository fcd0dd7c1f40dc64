"""Patterns of rules: `*` stands for any text, `?` for any character, and every other character for itself."""

from __future__ import annotations

from fnmatch import fnmatchcase


def matches_pattern(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern. Brackets are ordinary characters: ids of clients may contain them."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))
