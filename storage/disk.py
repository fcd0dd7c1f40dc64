"""File access for data folders. Every file operation of the storage package goes through a `Disk`.

`Disk` is the disk of this machine; `MemoryDisk` (memory_disk.py) has the same methods and keeps files in memory. Descriptors and
paths belong to the disk that returned them. Neither follows links, and only the user who runs the broker may read a file.

Start-up truncates, replaces and removes files, and a link could lead out of the data folder. Only regular files are opened:
anything else is refused with a StorageError that names it.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from enum import Enum
from typing import Final, NamedTuple

from stuntbroker.protocol.compiler import mypyc_attr
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.errors import StorageError

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
MAP_FROM: Final = 65_536
"""Reads of at least this many bytes are memory-mapped; smaller ones are copied."""
PAGE: Final = mmap.ALLOCATIONGRANULARITY
READ: Final = os.O_RDONLY
WRITE: Final = os.O_RDWR
CREATE: Final = os.O_RDWR | os.O_CREAT
CREATE_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL
# O_NONBLOCK: opening a named pipe must not wait for its other end.
_OPEN_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FULL_SYNC: Final = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)
"""Errors of F_FULLFSYNC on a file system that does not have it."""


class Kind(Enum):
    """Type of a path. Links are not followed."""

    FILE = "a file"
    FOLDER = "a folder"
    LINK = "a link"
    OTHER = "not a regular file"


class DiskSpace(NamedTuple):
    """Size of a file system, in bytes."""

    total_bytes: int
    usable_bytes: int
    """Bytes that an unprivileged user can still write."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk:
    """The disk of this machine. Methods raise OSError on a system error, and StorageError if a path is not a regular file."""

    # --- whole files

    def read_file(self, path: str) -> bytes:
        """Return the content of a regular file."""
        fd = self.open_file(path)
        try:
            return self.read(fd, self.size(fd), 0)
        finally:
            self.close(fd)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Replace the content of a regular file, in place."""
        fd = self.open_file(path, CREATE)
        try:
            self.truncate(fd, 0)
            self.write_all(fd, data, 0)
            if sync:
                self.sync(fd)
        finally:
            self.close(fd)

    def replace_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Replace a file by renaming a new one over it; readers that have mapped the old file keep its content.

        `sync`: sync the content before the rename.
        """
        self.write_file(path + ".new", data, sync=sync)
        self.rename(path + ".new", path)

    # --- open files

    def open_file(self, path: str, how: int = READ) -> int:
        """Open a regular file (READ, WRITE), or create it (CREATE, CREATE_NEW); return its descriptor."""
        try:
            fd = os.open(path, how | _OPEN_FLAGS, FILE_MODE)
        except OSError as fault:
            if fault.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP):
                raise self.not_regular(path) from fault
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise self.not_regular(path)
        return fd

    def read(self, fd: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer at the end of the file."""
        return os.pread(fd, size, position)

    def map(self, fd: int, size: int, position: int) -> Buffer:
        """Read as `read` does; from MAP_FROM bytes on, return a memory-mapped view, which stays valid if the file is removed."""
        if size < MAP_FROM:
            return os.pread(fd, size, position)
        start = position - position % PAGE
        try:
            mapped = mmap.mmap(fd, position - start + size, mmap.MAP_SHARED, mmap.PROT_READ, offset=start)
        except OSError:  # Too many mappings, or a file system without them.
            return os.pread(fd, size, position)
        return memoryview(mapped)[position - start :]

    def write(self, fd: int, data: Buffer, position: int) -> int:
        """Write at `position`; return the number of bytes written, which may be less than the size of `data`."""
        return os.pwrite(fd, data, position)

    def write_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`."""
        written = self.write(fd, data, position)
        if written < len(data):
            view = memoryview(data)
            while written < len(view):
                written += self.write(fd, view[written:], position + written)

    def size(self, fd: int) -> int:
        """Return the size of an open file in bytes."""
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        """Truncate an open file to `size` bytes."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Sync a file's content, so that it survives a power cut. A new file's name needs `sync_path` of its folder."""
        full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
        if full_sync is None:
            os.fdatasync(fd)
            return
        try:  # macOS has no fdatasync, and its fsync leaves data in the drive's cache.
            fcntl.fcntl(fd, full_sync)
        except OSError as fault:
            if fault.errno not in _NO_FULL_SYNC:
                raise
            os.fsync(fd)

    def set_modified_ns(self, fd: int, modified_ns: int) -> None:
        """Set the time at which an open file was last written, in ns since 1970."""
        os.utime(fd, ns=(modified_ns, modified_ns))

    def duplicate(self, fd: int) -> int:
        """Return another descriptor of an open file, which stays open when this one is closed."""
        return os.dup(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def lock(self, fd: int) -> bool:
        """Lock an open file until it is closed; False when another process, or another descriptor, has it locked."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    # --- names

    def kind(self, path: str) -> Kind | None:
        """Return the type of a path; None if nothing is there."""
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISREG(mode):
            return Kind.FILE
        return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER

    def not_regular(self, path: str) -> StorageError:
        """Return the error for a path that should be one of the broker's files but is not a regular file."""
        kind = self.kind(path) or Kind.OTHER
        return StorageError(
            f"{path} is {kind.value}, and the broker keeps a file there; nothing was changed: move it away"
        )

    def file_size(self, path: str) -> int:
        """Return the size in bytes of the file at a path."""
        return os.stat(path).st_size

    def modified_ns(self, path: str) -> int:
        """Return the time at which the file at a path was last written, in ns since 1970."""
        return os.stat(path).st_mtime_ns

    def absolute(self, path: str) -> str:
        """Return the absolute form of a path."""
        return os.path.abspath(path)

    def space(self, path: str) -> DiskSpace:
        """Return the total and usable size of the file system that a path is on."""
        figures = os.statvfs(path)
        return DiskSpace(figures.f_frsize * figures.f_blocks, figures.f_frsize * figures.f_bavail)

    def names_in(self, folder: str) -> list[str]:
        """Return the names in a folder, in arbitrary order."""
        return os.listdir(folder)

    def entries_in(self, folder: str) -> list[tuple[str, Kind]]:
        """Return (name, type) of each entry of a folder, in arbitrary order."""
        with os.scandir(folder) as entries:
            return [(entry.name, _kind_of(entry)) for entry in entries]

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents; do nothing if it exists."""
        os.makedirs(path, FOLDER_MODE, exist_ok=True)

    def make_new_folder(self, path: str) -> None:
        """Create a folder. Raises FileExistsError if there is one already."""
        os.mkdir(path, FOLDER_MODE)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder with everything in it, as far as possible. Links are not followed."""
        import shutil

        shutil.rmtree(path, ignore_errors=True)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or folder; an existing file of the new name is replaced."""
        os.replace(path, new_path)

    def remove(self, path: str) -> None:
        """Remove a file. Its open descriptors and mapped views stay valid."""
        os.unlink(path)

    def sync_path(self, path: str) -> None:
        """Sync a file, or the names in a folder; do nothing if it does not exist any more."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    return Kind.FILE if entry.is_file() else Kind.FOLDER if entry.is_dir() else Kind.OTHER


LOCAL_DISK: Final = Disk()
"""The disk of this machine."""
