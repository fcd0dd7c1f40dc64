"""Files of a data folder. None is reached through a link, and only the user who runs the broker may read them.

A link in a data folder leads somewhere else, and start-up cuts, replaces and removes files. Whatever is opened here must be a
regular file: anything else is refused with a StorageError that names it.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from stuntbroker.storage.errors import StorageError

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
# O_NONBLOCK: opening a named pipe must not wait for its other end.
_OPEN_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def not_regular(path: str) -> StorageError:
    """The refusal of a path at which a file of the broker is expected and something else is found."""
    kind = "a link" if os.path.islink(path) else "a folder" if os.path.isdir(path) else "not a regular file"
    return StorageError(f"{path} is {kind}, and the broker keeps a file there; nothing was changed: move it away")


def open_file(path: str, flags: int) -> int:
    """Open or create a regular file; return its descriptor. Raises StorageError for anything else, OSError as os.open does."""
    try:
        fd = os.open(path, flags | _OPEN_FLAGS, FILE_MODE)
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise not_regular(path) from fault
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise not_regular(path)
    return fd


def read_file(path: str) -> bytes:
    """The content of a regular file. Raises StorageError, OSError."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_file(path: str, data: bytes, *, sync: bool = False) -> None:
    """Write a whole regular file, in place of what it held. Raises StorageError, OSError."""
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.truncate(0)  # Not O_TRUNC: only a file that was found to be regular is emptied.
        file.write(data)
        if sync:
            file.flush()
            os.fdatasync(file.fileno())


def replace_file(path: str, data: bytes, *, sync: bool = False) -> None:
    """Put a new file in the place of an old one, which a reader may have mapped. Raises StorageError, OSError.

    `sync`: the content is on the disk before the file gets its name.
    """
    write_file(path + ".new", data, sync=sync)
    os.replace(path + ".new", path)


def make_folder(path: str) -> None:
    """Make a folder, and those above it, unless it is there. Raises OSError."""
    os.makedirs(path, FOLDER_MODE, exist_ok=True)
