"""What can go wrong with files. Raised as exceptions: a fault is no answer, the shell turns it into one."""

from __future__ import annotations


class StorageError(Exception):
    """The disk refused, or a file is not what it must be. Nothing of the append that raised it is kept."""


class DataDirLocked(StorageError):
    """Another process works on the data folder."""
