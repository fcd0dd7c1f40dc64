"""Producer ids: which are given out, and which are reserved on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

BLOCK: Final = 1_000
"""Producer ids are reserved in the journal by so many at a time; what is left of a block is lost at a restart."""


class ProducerIds:
    """Producer ids, none ever given twice, restarts included."""

    def __init__(self, first: int, reserve: Callable[[int], None]) -> None:
        self.next = first
        self._reserved_below = first
        self._reserve = reserve

    def peek(self) -> int:
        """Return the producer id that is given out next. Raises StorageError: a block of ids is reserved on disk first."""
        if self.next >= self._reserved_below:
            self._reserve(self.next + BLOCK)
            self._reserved_below = self.next + BLOCK
        return self.next

    def take(self) -> int:
        """Allocate an unused producer id. Raises StorageError."""
        taken = self.peek()
        self.next += 1
        return taken
