"""Division of the process's file descriptors between connections, segments, and a reserve for everything else."""

from __future__ import annotations

from typing import Final, NamedTuple

RESERVE: Final = 64
"""File descriptors for short use: loading modules, checkpoints, snapshots, the journal, log cleaning, scrapes."""


class Shares(NamedTuple):
    """How many of the process's file descriptors connections and segments may take."""

    connections: int
    """Maximum number of open connections."""
    segments: int
    """Maximum number of segments whose file stays open."""


def share(open_files_max: int, connections_wanted: int) -> Shares:
    """Return the shares: connections get `connections_wanted`, at most 3/4 of the free descriptors; segments get the rest."""
    free = max(open_files_max - RESERVE, 8)
    connections = min(connections_wanted, free * 3 // 4)
    return Shares(connections, free - connections)
