"""Errors of the storage package. The broker translates them into error codes of the protocol."""

from __future__ import annotations

import errno


class StorageError(Exception):
    """A disk operation failed, or a file is damaged. Nothing of an append that raises this is kept."""


class DataDirLocked(StorageError):
    """Another process uses the data folder."""


class LogDeleted(StorageError):
    """The topic was deleted while a request to append to it was waiting."""


class TooManyOpenFiles(StorageError):
    """The limit of open files is reached. Nothing was changed, and the request may succeed later."""


def storage_error(doing: str, fault: OSError) -> StorageError:
    """Return the StorageError for an OSError; `doing` is its first part, such as "cannot open FILE"."""
    kind = TooManyOpenFiles if fault.errno in (errno.EMFILE, errno.ENFILE) else StorageError
    return kind(f"{doing}: {fault.strerror}")
