"""Removes the temporary data folders of killed brokers, when a broker with a temporary folder starts.

A folder is removed if and only if all of this is true:

    its name                    is one that a broker gives to its temporary folder
    it                          is a folder of this user, not a link, and only this user may open it
    .lock                       exists, and no process holds it
    metadata.journal            exists: a broker that is just starting has none before it holds the lock
    .kafka_cleanshutdown        does not exist: a broker that was stopped in order had the folder as its --data-dir

The journal is removed last but for the lock, so that the next broker finishes an interrupted removal. Links are not followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
from typing import Final

from stuntbroker.broker.temporary_folder import TEMPORARY_PREFIX
from stuntbroker.protocol.data_folder import CLEAN_SHUTDOWN, JOURNAL, LOCK

_NAME: Final = re.compile(re.escape(TEMPORARY_PREFIX) + "[0-9a-f]{12}")


def remove_stale_folders(root: str) -> None:
    """Remove the data folders of killed brokers from `root`, the folder for temporary files."""
    for name in filter(_NAME.fullmatch, os.listdir(root)):
        with contextlib.suppress(OSError):  # Another user's, in use, or removed by another broker at the same time.
            _remove_if_stale(os.path.join(root, name))


def _remove_if_stale(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Checked before locking: a broker that starts in the folder would fail if this held the lock, even briefly.
        if _is_left_behind(folder):
            _remove_unless_locked(path, folder)
    finally:
        os.close(folder)


def _is_left_behind(folder: int) -> bool:
    status, names = os.fstat(folder), os.listdir(folder)
    is_private = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
    return is_private and JOURNAL in names and CLEAN_SHUTDOWN not in names


def _remove_unless_locked(path: str, folder: int) -> None:
    lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_left_behind(folder):  # Checked again: it may have changed before the lock was acquired.
            return
        last = (JOURNAL, LOCK)
        for name in (*(name for name in os.listdir(folder) if name not in last), *last):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        os.rmdir(path)
    finally:
        os.close(lock)
