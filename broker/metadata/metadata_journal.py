"""Writes changes of the cluster's metadata to the journal of the data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.storage.data_dir import DataDir
    from stuntbroker.storage.turn import Turn


class MetadataJournal:
    """The journal of a running broker, for topics, ACLs, quotas and all other metadata."""

    def __init__(self, data_dir: DataDir, turn: Turn, *, syncs: bool) -> None:
        """`syncs`: a change has to be on the disk before its response."""
        self._data_dir = data_dir
        self._syncs = syncs
        self._turn = turn

    def write(self, change: dict[str, Any]) -> None:
        """Write a change, as durably as configured. Raises StorageError; the change must not be made then."""
        self._data_dir.journal(change)
        if self._syncs:
            try:
                self._data_dir.sync_journal()
            except StorageError as fault:
                self._turn.fail(fault)  # Whether the line is durable is unknown.
                raise
