"""A disk in memory, for tests, which can lose its power, fill up, and refuse any call.

As on a real machine, writes go to a cache first. `sync` puts a file's content on the disk, and `sync_path` of a folder puts the
names in the folder on the disk. A test can end a broker in two ways:

- The broker is killed. The cache survives: after `release` has closed the open files, the next broker uses the same disk.
- The power is cut. `after_power_cut` returns the disk that the next broker finds. Each sector of 512 bytes has the content of
  some moment since the last sync of its file, and the file has the size of some such moment; sectors that were never written
  are zeros. Of the changes to the names in a folder since its last sync, the first few have survived, independently of other
  folders.

All outcomes of a power cut are drawn from a random generator that the test passes in, so that they can be reproduced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.disk import Disk, DiskSpace, Kind

SECTOR: Final = 512
_FIRST_DESCRIPTOR: Final = 1 << 20
"""Far above the descriptors of the process, so that mixing them up causes an error."""
_NS_PER_WRITE: Final = 1_000_000
SPACE_WITHOUT_LIMIT: Final = 1 << 40
"""Total bytes that a disk without `capacity` reports."""
OnCall = Callable[[str, str], int | None]
"""Called with the name of a Disk method and the path of the call; returns an errno to refuse the call, or None.

If the callback raises an exception, the call does nothing, as if the process had been killed before it.
"""


class RandomNumbers(Protocol):
    """Interface of the random generator; `random.Random` implements it."""

    def randrange(self, stop: int, /) -> int:
        """Return an integer from 0 to `stop`, exclusive."""

    def choice(self, seq: tuple[str, ...], /) -> str:
        """Return one element of `seq`."""


class _File:
    """The content of a file: in the cache, on the disk, and the writes in between, oldest first."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.synced = b""
        self.unsynced: list[tuple[int, bytes] | int] = []
        """(position, data) for a write, or the new size for a truncation."""
        self.modified_ns = 0
        self.is_locked = False

    def synchronize(self) -> None:
        """Put the content on the disk."""
        self.synced = bytes(self.cached)
        self.unsynced = []

    def after_power_cut(self, random_numbers: RandomNumbers) -> _File:
        """Return the file that a power cut leaves."""
        changes = self.unsynced
        outcome = random_numbers.choice(("kept", "lost", "mixed", "mixed"))

        def moment() -> int:
            """Return the number of changes that have happened at a moment since the last sync."""
            if outcome == "mixed":
                return random_numbers.randrange(len(changes) + 1)
            return len(changes) if outcome == "kept" else 0

        content, size, size_moment = bytearray(self.synced), len(self.synced), moment()
        sector_moments: dict[int, int] = {}
        for number, change in enumerate(changes):
            if isinstance(change, int):
                if number < size_moment:
                    size = change
                    del content[size:]
                continue
            position, data = change
            if number < size_moment:
                size = max(size, position + len(data))
            for start in range(position - position % SECTOR, position + len(data), SECTOR):
                if number < sector_moments.setdefault(start, moment()):
                    first, end = max(start, position), min(start + SECTOR, position + len(data))
                    _put(content, first, data[first - position : end - position])
        _resize(content, size)
        file = _File()
        file.cached, file.modified_ns = content, self.modified_ns
        file.synchronize()
        return file


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content += bytes(size - len(content))


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        _resize(content, position)
    content[position : position + len(data)] = data


class _Gone(Enum):
    """Stands for the removal of a name."""

    GONE = 0


Entry = _File | None
"""A file, or None for a folder."""
Changes = dict[str, Entry | _Gone]
"""Path -> its new entry; all changes of one file system operation, which are applied together."""


class MemoryDisk(Disk):
    """Files in memory. `capacity`: maximum bytes of all files together; writes beyond it fail with ENOSPC."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.write_size_max: int | None = None
        """Maximum bytes that one `write` accepts; the caller must write the remaining bytes."""
        self.on_call: OnCall | None = None
        """Called before every operation, except read-only ones."""
        self._entries: dict[str, Entry] = {"/": None}
        self._names: dict[str, dict[str, None]] = {"/": {}}
        """Folder -> the names in it."""
        self._synced_entries: dict[str, Entry] = {"/": None}
        self._unsynced_changes: dict[str, list[Changes]] = {}
        """Folder -> the changes to its names since it was last synced, oldest first."""
        self._open: dict[int, tuple[_File, str]] = {}
        self._next_descriptor = _FIRST_DESCRIPTOR
        self._writes = 0

    # --- operations of a test

    def release(self) -> None:
        """Close everything that a killed broker had open."""
        for file, _ in self._open.values():
            file.is_locked = False
        self._open.clear()

    def copy(self) -> MemoryDisk:
        """Return an independent disk with the same files, as after a kill."""
        return self._with(self._entries, _copy_of)

    def after_power_cut(self, random_numbers: RandomNumbers) -> MemoryDisk:
        """Return the disk that the next start finds after a power cut now."""
        entries = dict(self._synced_entries)
        for changes in self._unsynced_changes.values():
            for change in changes[: random_numbers.randrange(len(changes) + 1)]:
                _apply(entries, change)
        reachable = {path: entry for path, entry in entries.items() if _has_folders(entries, path)}
        return self._with(reachable, lambda file: file.after_power_cut(random_numbers))

    def _with(self, entries: dict[str, Entry], make: Callable[[_File], _File]) -> MemoryDisk:
        disk = MemoryDisk(self.capacity)
        files: dict[int, _File] = {}
        for path in sorted(entries):
            entry = entries[path]
            if entry is not None and id(entry) not in files:
                files[id(entry)] = make(entry)
            disk._enter({path: None if entry is None else files[id(entry)]})
        disk._unsynced_changes = {}
        disk._synced_entries = dict(disk._entries)
        disk._writes = self._writes
        return disk

    def files(self) -> dict[str, bytes]:
        """Return path -> content of every file."""
        return {path: bytes(entry.cached) for path, entry in sorted(self._entries.items()) if entry is not None}

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(entry.cached) for entry in self._entries.values() if entry is not None)

    def space(self, path: str) -> DiskSpace:
        """As Disk; a disk without `capacity` has SPACE_WITHOUT_LIMIT."""
        total = SPACE_WITHOUT_LIMIT if self.capacity is None else self.capacity
        return DiskSpace(total, max(0, total - self.used))

    # --- open files

    def open_file(self, path: str, how: int = os.O_RDONLY) -> int:
        """As Disk."""
        path = _normal(path)
        self._before("open_file", path)
        if path not in self._entries:
            if not how & os.O_CREAT:
                raise _refusal(errno.ENOENT, path)
            self._check_parent(path)
            self._enter({path: _File()})
        elif how & os.O_EXCL:
            raise _refusal(errno.EEXIST, path)
        file = self._entries[path]
        if file is None:
            raise self.not_regular(path)
        return self._descriptor(file, path)

    def _descriptor(self, file: _File, path: str) -> int:
        self._next_descriptor += 1
        self._open[self._next_descriptor] = file, path
        return self._next_descriptor

    def _file(self, fd: int) -> tuple[_File, str]:
        try:
            return self._open[fd]
        except KeyError:
            raise _refusal(errno.EBADF, f"descriptor {fd}") from None

    def read(self, fd: int, size: int, position: int) -> bytes:
        """As Disk."""
        file, path = self._file(fd)
        self._before("read", path)
        return bytes(memoryview(file.cached)[position : position + size])

    def map(self, fd: int, size: int, position: int) -> Buffer:
        """As Disk; always a copy."""
        return self.read(fd, size, position)

    def write(self, fd: int, data: Buffer, position: int) -> int:
        """As Disk."""
        file, path = self._file(fd)
        self._before("write", path)
        size = len(data) if self.write_size_max is None else min(len(data), self.write_size_max)
        if self.capacity is not None:
            # Existing bytes can be overwritten even if the disk is full.
            size = min(size, max(0, len(file.cached) - position) + max(0, self.capacity - self.used))
            if not size and len(data):
                raise _refusal(errno.ENOSPC, path)
        written = bytes(memoryview(data)[:size])
        _put(file.cached, position, written)
        file.unsynced.append((position, written))
        self._modified(file)
        return size

    def _modified(self, file: _File) -> None:
        self._writes += 1
        file.modified_ns = self._writes * _NS_PER_WRITE

    def size(self, fd: int) -> int:
        """As Disk."""
        return len(self._file(fd)[0].cached)

    def truncate(self, fd: int, size: int) -> None:
        """As Disk."""
        file, path = self._file(fd)
        self._before("truncate", path)
        _resize(file.cached, size)
        file.unsynced.append(size)
        self._modified(file)

    def sync(self, fd: int) -> None:
        """As Disk."""
        file, path = self._file(fd)
        self._before("sync", path)
        file.synchronize()

    def set_modified_ns(self, fd: int, modified_ns: int) -> None:
        """As Disk."""
        self._file(fd)[0].modified_ns = modified_ns

    def duplicate(self, fd: int) -> int:
        """As Disk."""
        return self._descriptor(*self._file(fd))

    def close(self, fd: int) -> None:
        """As Disk."""
        file, _ = self._file(fd)
        del self._open[fd]
        file.is_locked = False

    def lock(self, fd: int) -> bool:
        """As Disk."""
        file, _ = self._file(fd)
        if file.is_locked:
            return False
        file.is_locked = True
        return True

    # --- names

    def kind(self, path: str) -> Kind | None:
        """As Disk. There are no links."""
        path = _normal(path)
        if path not in self._entries:
            return None
        return Kind.FOLDER if self._entries[path] is None else Kind.FILE

    def _existing_file(self, path: str) -> _File:
        entry = self._entries.get(_normal(path))
        if entry is None:
            raise _refusal(errno.ENOENT, path)
        return entry

    def file_size(self, path: str) -> int:
        """As Disk."""
        return len(self._existing_file(path).cached)

    def modified_ns(self, path: str) -> int:
        """As Disk; the times of successive writes are a millisecond apart."""
        return self._existing_file(path).modified_ns

    def names_in(self, folder: str) -> list[str]:
        """As Disk."""
        return [name for name, _ in self.entries_in(folder)]

    def entries_in(self, folder: str) -> list[tuple[str, Kind]]:
        """As Disk."""
        folder = _normal(folder)
        if folder not in self._entries:
            raise _refusal(errno.ENOENT, folder)
        if self._entries[folder] is not None:
            raise _refusal(errno.ENOTDIR, folder)
        prefix = "" if folder == "/" else folder
        return [
            (name, Kind.FOLDER if self._entries[f"{prefix}/{name}"] is None else Kind.FILE)
            for name in self._names[folder]
        ]

    def make_folder(self, path: str) -> None:
        """As Disk."""
        path = _normal(path)
        self._before("make_folder", path)
        missing = []
        while path not in self._entries:
            missing.append(path)
            path = _parent(path)
        if self._entries[path] is not None:
            raise _refusal(errno.ENOTDIR if missing else errno.EEXIST, path)
        for folder in reversed(missing):
            self._enter({folder: None})

    def make_new_folder(self, path: str) -> None:
        """As Disk. Also creates missing parents: a new disk has no folder for temporary files."""
        if _normal(path) in self._entries:
            raise _refusal(errno.EEXIST, path)
        self.make_folder(path)

    def remove_folder(self, path: str) -> None:
        """As Disk."""
        path = _normal(path)
        self._before("remove_folder", path)
        if self.entries_in(path):
            raise _refusal(errno.ENOTEMPTY, path)
        self._enter({path: _Gone.GONE})

    def remove_tree(self, path: str) -> None:
        """As Disk."""
        path = _normal(path)
        self._before("remove_tree", path)
        self._enter({each: _Gone.GONE for each in self._entries if each == path or each.startswith(f"{path}/")})

    def rename(self, path: str, new_path: str) -> None:
        """As Disk."""
        path, new_path = _normal(path), _normal(new_path)
        self._before("rename", path)
        if path not in self._entries:
            raise _refusal(errno.ENOENT, path)
        self._check_parent(new_path)
        changes: Changes = {}
        for old in sorted(old for old in self._entries if old == path or old.startswith(path + "/")):
            changes[old] = _Gone.GONE
            changes[new_path + old[len(path) :]] = self._entries[old]
        self._enter(changes)

    def remove(self, path: str) -> None:
        """As Disk."""
        path = _normal(path)
        self._before("remove", path)
        self._existing_file(path)
        self._enter({path: _Gone.GONE})

    def sync_path(self, path: str) -> None:
        """As Disk."""
        path = _normal(path)
        self._before("sync_path", path)
        if path not in self._entries:
            return
        entry = self._entries[path]
        if entry is not None:
            entry.synchronize()
            return
        for change in self._unsynced_changes.pop(path, ()):
            _apply(self._synced_entries, change)

    def _enter(self, changes: Changes) -> None:
        """Apply changes to names as one step of the folder that contains the first of them."""
        _apply(self._entries, changes)
        for path, entry in changes.items():
            name = path.rpartition("/")[2]
            if entry is _Gone.GONE:
                self._names.get(_parent(path), {}).pop(name, None)
                self._names.pop(path, None)
            elif path != "/":
                self._names[_parent(path)][name] = None
                if entry is None:
                    self._names.setdefault(path, {})
        self._unsynced_changes.setdefault(_parent(next(iter(changes))), []).append(changes)

    def _check_parent(self, path: str) -> None:
        parent = _parent(path)
        if parent not in self._entries:
            raise _refusal(errno.ENOENT, path)
        if self._entries[parent] is not None:
            raise _refusal(errno.ENOTDIR, path)

    def _before(self, call: str, path: str) -> None:
        if self.on_call is not None and (number := self.on_call(call, path)):
            raise _refusal(number, path)


def _apply(entries: dict[str, Entry], changes: Changes) -> None:
    for path, entry in changes.items():
        if entry is _Gone.GONE:
            entries.pop(path, None)
        else:
            entries[path] = entry


def _copy_of(file: _File) -> _File:
    copy = _File()
    copy.cached, copy.modified_ns = bytearray(file.cached), file.modified_ns
    copy.synchronize()
    return copy


def _has_folders(entries: dict[str, Entry], path: str) -> bool:
    """Whether every parent folder of a path exists."""
    while path != "/":
        path = _parent(path)
        if path not in entries or entries[path] is not None:
            return False
    return True


def _normal(path: str) -> str:
    return os.path.normpath(path if path.startswith("/") else "/" + path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _refusal(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
