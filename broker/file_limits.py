"""How the files that the process may have open are shared: connections, segments, and a reserve for everything else."""

from __future__ import annotations

from typing import Final, NamedTuple

RESERVE: Final = 64
"""For what is opened for a moment: modules that load, checkpoints, snapshots, the journal, a cleaning, a scrape."""


class Shares(NamedTuple):
    """How many of the process's file descriptors connections and segments may take."""

    connections: int
    """Clients at a time."""
    segments: int
    """Segments whose file stays open."""


def share(open_files_max: int, connections_wanted: int) -> Shares:
    """Return the shares: connections get what they want, up to three quarters of the free descriptors, segments the rest."""
    free = max(open_files_max - RESERVE, 8)
    connections = min(connections_wanted, free * 3 // 4)
    return Shares(connections, free - connections)
