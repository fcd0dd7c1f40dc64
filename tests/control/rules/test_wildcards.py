"""Patterns of rules: `*` and `?`, and nothing else."""

from __future__ import annotations

import pytest

from stuntbroker.control.rules.wildcards import matches_pattern


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("orders-1", "orders-*", True),
        ("orders-1", "orders-?", True),
        ("orders-12", "orders-?", False),
        ("Orders", "orders", False),
        ("pay[1]", "pay[1]", True),
        ("pay1", "pay[12]", False),
        ("pay[12]", "pay[??]", True),
        ("a]b", "a]b", True),
        ("[!a]", "[!a]", True),
        ("b", "[!a]", False),
    ],
)
def test_brackets_stand_for_themselves(text: str, pattern: str, expected: bool) -> None:
    assert matches_pattern(text, pattern) is expected
