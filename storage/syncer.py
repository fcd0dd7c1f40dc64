"""`--durability power`: responses wait until the data that they acknowledge is on the disk.

One sync serves all waiting responses: while it runs in its thread, the appends of the next turns are collected for the next
sync. A new file survives a power cut only if its folder was synced too: the folder of a new segment, and of any other file
that was created or renamed (`path_created`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.points import Points

DESCRIPTORS_MAX: Final = 32
"""Maximum number of file descriptors open in one sync; further files are opened one after another."""


class Executor(Protocol):
    """Runs `work` in another thread, then calls `done` on the event loop with the exception that `work` raised, or None."""

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None: ...


class Syncer:
    """Syncs written files in a thread, then calls the callbacks that wait for the sync."""

    def __init__(
        self,
        run: Executor,
        failed: Callable[[BaseException], None],
        points: Points | None = None,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self._disk = disk
        self._points = points or Points()
        self._unsynced: list[PartitionLog] = []
        self._created_paths: dict[str, None] = {}
        self._waiting: list[Callable[[], None]] = []
        self._running = False
        self._calls_back = False
        """Whether callbacks run: what they write goes into one sync, which begins after the last of them."""
        self._broken = False
        """A sync or write failed, or `stop` was called: no callback is called any more.

        After a failed sync, a later successful one does not prove that the data is on the disk.
        """
        self._run = run
        self._failed = failed
        """Called with the error of a failed sync: the durability of written data is unknown then."""

    @property
    def is_all_synced(self) -> bool:
        """Whether everything that was written is on the disk."""
        return not self._unsynced and not self._running and not self._broken and not self._created_paths

    def register(self, log: PartitionLog) -> None:
        """Register a log that was written to for the next sync."""
        self._unsynced.append(log)

    def path_created(self, path: str) -> None:
        """Register a written file that is not part of a log, or a folder whose entries have changed, for the next sync."""
        self._created_paths[path] = None

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when everything that is written now is on the disk."""
        self._waiting.append(callback)
        if not self._running and not self._calls_back and not self._broken:
            self._start()

    def stop(self) -> None:
        """Drop all waiting callbacks, and accept no more."""
        self._broken = True
        self._waiting.clear()

    def _collect(self, log: PartitionLog, descriptors: list[int], created_paths: dict[str, None]) -> None:
        """Add what has to be synced of a log. Raises OSError, StorageError."""
        for segment in log.segments[-2:]:
            if segment.fd >= 0 or segment is log.active:  # The file may have been closed since it was written.
                if len(descriptors) < DESCRIPTORS_MAX:
                    descriptors.append(self._disk.duplicate(segment.open()))
                else:
                    created_paths[f"{segment.path}.log"] = None
            if segment.is_new:
                segment.is_new = False
                created_paths[log.folder] = None

    def _start(self) -> None:
        logs, self._unsynced = self._unsynced, []
        waiting, self._waiting = self._waiting, []
        created_paths, self._created_paths = self._created_paths, {}
        descriptors: list[int] = []
        refusal: Exception | None = None
        self._running = True
        try:
            for log in logs:
                log.is_unsynced = False
                self._collect(log, descriptors, created_paths)
            self._points.pass_point("log.sync.before")
        except (StorageError, OSError) as fault:
            refusal = fault

        def work() -> None:
            try:
                if refusal is not None:
                    raise refusal
                for fd in descriptors:
                    self._disk.sync(fd)
                for path in created_paths:
                    self._disk.sync_path(path)
            finally:
                for fd in descriptors:
                    self._disk.close(fd)

        def done(fault: BaseException | None) -> None:
            self._running = False
            if self._broken:
                return
            try:
                self._points.pass_point("log.sync.after")
            except StorageError as failed:
                fault = fault or failed
            if fault is not None:
                self.stop()
                self._failed(fault)
                return
            first_error: Exception | None = None
            self._calls_back = True
            try:
                for callback in waiting:
                    try:
                        callback()
                    except Exception as error:  # The other callbacks still run; the first error is raised at the end.
                        first_error = first_error or error
            finally:
                self._calls_back = False
            if self._waiting:
                self._start()
            if first_error is not None:
                raise first_error

        self._run(work, done)
