"""Format numbers with their nouns, for messages to people."""

from __future__ import annotations


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Return a number with its noun in the singular or plural: 1 batch, 2,000 batches."""
    digits = f"{number:,}"
    return digits if not noun else f"{digits} {noun if number == 1 else plural or noun + 's'}"
