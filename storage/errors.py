"""What can go wrong with files. Raised as exceptions: a fault is no answer, the shell turns it into one."""

from __future__ import annotations

import errno


class StorageError(Exception):
    """The disk refused, or a file is not what it must be. Nothing of the append that raised it is kept."""


class DataDirLocked(StorageError):
    """Another process works on the data folder."""


class LogDeleted(StorageError):
    """The topic was deleted while a request waited that would append to it."""


class TooManyOpenFiles(StorageError):
    """The process may not open another file now. Nothing was changed, and the same request may succeed later."""


def storage_error(doing: str, fault: OSError) -> StorageError:
    """The fault with what was being done, as "cannot open FILE"; TooManyOpenFiles where that is the reason."""
    kind = TooManyOpenFiles if fault.errno in (errno.EMFILE, errno.ENFILE) else StorageError
    return kind(f"{doing}: {fault.strerror}")
