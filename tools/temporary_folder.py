"""Print the folder for the temporary files of tests: one in memory where there is room, otherwise the usual one.

The tests create and remove so many small files that a disk's file system can cost more than the tests: on ext4 without a
journal, those in records, administration and transactions of `tests/broker` took three times as long. All tests together use
some 130 MB at a time.
"""

from __future__ import annotations

import os
import tempfile
from typing import Final

MEMORY: Final = "/dev/shm"
"""Files in memory, where Linux has them. In a container, this is often small, and programs in it may not be run."""
ROOM_BYTES_MIN: Final = 2 << 30
NO_PROGRAMS: Final = getattr(os, "ST_NOEXEC", 8)
"""The flag of a file system from which no program may be run; on macOS, `os` does not have it."""


def fits(status: os.statvfs_result) -> bool:
    """Return whether a file system has room for the tests' files, and may hold programs: tests install some."""
    return status.f_bavail * status.f_frsize >= ROOM_BYTES_MIN and not status.f_flag & NO_PROGRAMS


def choose(memory: str = MEMORY) -> str:
    """Return `memory` if it is a folder that fits and may be written to, otherwise the default of this system."""
    if os.path.isdir(memory) and os.access(memory, os.R_OK | os.W_OK | os.X_OK) and fits(os.statvfs(memory)):
        return memory
    return tempfile.gettempdir()


if __name__ == "__main__":
    print(choose())
