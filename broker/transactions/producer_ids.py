"""Allocation of producer ids, from blocks that are reserved in the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BLOCK: Final = 1_000
"""Number of producer ids in a block; the unused ids of a block are lost at a restart."""


class ProducerIds:
    """Allocates producer ids. No id is allocated twice, not even after a restart."""

    def __init__(self, first: int, reserve: Callable[[int], None]) -> None:
        self.next = first
        self._reserved_below = first
        self._reserve = reserve

    def peek(self) -> int:
        """Return the next producer id without allocating it. Raises StorageError if a new block cannot be reserved."""
        if self.next >= self._reserved_below:
            self._reserve(self.next + BLOCK)
            self._reserved_below = self.next + BLOCK
        return self.next

    def take(self) -> int:
        """Allocate an unused producer id. Raises StorageError."""
        taken = self.peek()
        self.next += 1
        return taken
