"""The descriptors of segments: so many of the process's open files, and no more.

Partitions are many and most of them are silent. A segment opens its file when it is used; when too many are open, the one that
was opened longest ago is closed, and opens its file again when it is used again.
"""

from __future__ import annotations

from typing import Final, Protocol


class Closable(Protocol):
    """A segment with an open file. `close` keeps everything but the descriptor."""

    @property
    def pending(self) -> bool:
        """Whether the file must stay open, as something waits to be written to it."""

    def close(self) -> None:
        """Close the file."""


class OpenFiles:
    """Open segments in the order in which they were opened. The limit belongs to the process, as its descriptors do."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: dict[Closable, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Closable) -> None:
        """Count a segment that has just opened its file; close others that were opened before it when there are too many."""
        self._open[segment] = None
        while len(self._open) > self.limit:
            other = next((each for each in self._open if each is not segment and not each.pending), None)
            if other is None:
                return
            other.close()

    def closed(self, segment: Closable) -> None:
        """Count a segment no more."""
        self._open.pop(segment, None)


NO_LIMIT: Final = 1 << 62
OPEN_FILES: Final = OpenFiles(NO_LIMIT)
"""Open files of this process. A broker sets the limit when it starts."""
