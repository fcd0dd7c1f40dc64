"""Temporary data folder of a broker without `--data-dir`. stale_folders.py removes the folders of killed brokers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.random_source import RandomSource
    from stuntbroker.storage.disk import Disk

TEMPORARY_PREFIX: Final = "stuntbroker-"


def make_temporary_folder(disk: Disk, random_source: RandomSource) -> str:
    """Make a folder like tempfile.mkdtemp, without the time to import that module; return its path.

    Raises StorageError.
    """
    parent = os.environ.get("TMPDIR") or "/tmp"
    path = f"{parent}/{TEMPORARY_PREFIX}{random_source.random_bytes(6).hex()}"
    try:
        disk.make_new_folder(path)
    except OSError as fault:
        advice = "give a --data-dir, or another folder by the variable TMPDIR"
        raise StorageError(f"cannot make a temporary folder in {parent}: {fault.strerror}; {advice}") from fault
    return path
