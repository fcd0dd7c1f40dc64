"""Numbers with their nouns, for whatever is said to a person."""

from __future__ import annotations


def count(number: int, noun: str = "", plural: str = "") -> str:
    """With its noun in the right number: 1 batch, 2,000 batches."""
    digits = f"{number:,}"
    return digits if not noun else f"{digits} {noun if number == 1 else plural or noun + 's'}"
