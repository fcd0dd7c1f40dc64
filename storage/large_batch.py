"""Batches that are too large to be written in one turn of the event loop.

Such a batch is written in pieces to a file of its own, `N.large`, while the partition serves other requests. When the batch
is appended, its base offset is written into that file, which becomes the next segment; this takes the same time for any
size. After a crash, the next start removes such files.
"""

from __future__ import annotations

import contextlib
from itertools import count
from typing import Final

from stuntbroker.protocol.data_folder import LARGE_BATCH_SUFFIX
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.disk import CREATE_NEW, WRITE, Disk
from stuntbroker.storage.errors import storage_error

LARGE_BATCH_SIZE: Final = 4 << 20
"""Bytes above which a batch is large. Writing this many takes a few milliseconds."""
PIECE_SIZE: Final = 2 << 20
"""Bytes of one piece."""
_numbers = count(1)


class LargeBatch:
    """A large batch that is to be appended to the log in `folder` on `disk`.

    `is_filled`: result of `records_fill` if it was already computed, else None.
    """

    __slots__ = ("_disk", "_folder", "_path", "_written", "batch", "is_filled", "size")

    def __init__(self, disk: Disk, folder: str, batch: Buffer, size: int) -> None:
        self.batch = batch
        self.size = size
        """Bytes of the batch; the buffer may contain more after it."""
        self.is_filled: bool | None = None
        self._disk = disk
        self._folder = folder
        self._path = ""
        self._written = 0

    @property
    def is_written(self) -> bool:
        """Whether the whole batch is in its file."""
        return self._written == self.size

    def write_piece(self) -> None:
        """Write the next piece. Raises StorageError, after which the batch is to be discarded."""
        first = not self._path
        if first:
            self._path = f"{self._folder}/{next(_numbers)}{LARGE_BATCH_SUFFIX}"
        try:
            fd = self._disk.open_file(self._path, CREATE_NEW if first else WRITE)
            try:
                data = memoryview(self.batch)[self._written : min(self._written + PIECE_SIZE, self.size)]
                self._written += self._disk.write(fd, data, self._written)
            finally:
                self._disk.close(fd)
        except OSError as fault:
            raise storage_error(f"cannot write {self._path}", fault) from fault

    def become(self, path: str, head: Buffer) -> int:
        """Give the written file its final header and the name `path`; return its descriptor. Raises OSError, StorageError."""
        fd = self._disk.open_file(self._path, WRITE)
        try:
            self._disk.write_all(fd, head, 0)
            self._disk.rename(self._path, path)
        except BaseException:
            self._disk.close(fd)
            raise
        self._path = ""
        return fd

    def discard(self) -> None:
        """Remove the file of a batch that was not appended. If that fails, the next start removes it."""
        if self._path:
            with contextlib.suppress(OSError):  # Usually the topic was deleted, and its folder too.
                self._disk.remove(self._path)
        self._path, self._written = "", 0
