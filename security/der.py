"""Reading of DER (X.690), in which keys and certificates are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Element(NamedTuple):
    """A value with its tag."""

    tag: int
    content: bytes
    encoded: bytes
    """The whole value, beginning with its tag."""


def elements(data: bytes) -> Iterator[Element]:
    """Yield the values that follow one another in `data`, such as the content of a sequence. Raises ValueError."""
    at = 0
    while at < len(data):
        try:
            length, start = read_length(data, at + 1)
        except IndexError:
            raise ValueError("a value has no length") from None
        stop = start + length
        if stop > len(data):
            raise ValueError("a value runs past the end")
        yield Element(data[at], data[start:stop], data[at:stop])
        at = stop


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return (length, position after it) of a value whose length begins at `at`. Raises IndexError if it is not there."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    stop = at + 1 + (first & 0x7F)
    return int.from_bytes(data[at + 1 : stop], "big"), stop


def oid_of(content: bytes) -> str:
    """Return an object identifier in numbers with dots."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:]))) if numbers else ""
