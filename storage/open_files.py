"""Limit on the number of file descriptors that segments hold open.

There may be many partitions, most of them idle. A segment opens its file on first use; when too many files are open, the one
that was opened longest ago is closed, and reopened on its next use.
"""

from __future__ import annotations

from typing import Final, Protocol


class Closable(Protocol):
    """A segment with an open file."""

    @property
    def pending(self) -> bool:
        """Whether the file must stay open because batches are waiting to be written to it."""

    def close(self) -> None:
        """Close the file; the segment reopens it on its next use."""


class OpenFiles:
    """Open segments, in the order in which they were opened. The limit applies to the whole process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: dict[Closable, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Closable) -> None:
        """Add a segment that has just opened its file; above the limit, close those that were opened longest ago."""
        self._open[segment] = None
        while len(self._open) > self.limit:
            other = next((each for each in self._open if each is not segment and not each.pending), None)
            if other is None:
                return
            other.close()

    def closed(self, segment: Closable) -> None:
        """Remove a segment that has closed its file."""
        self._open.pop(segment, None)


NO_LIMIT: Final = 1 << 62
OPEN_FILES: Final = OpenFiles(NO_LIMIT)
"""Open files of this process. A broker sets the limit when it starts."""
