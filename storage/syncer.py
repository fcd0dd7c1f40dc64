"""`--durability power`: nothing is answered before it is on the disk.

One fdatasync for all answers that wait: while a sync runs in its thread, the appends of the next turns gather for the
one after.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from stuntbroker.storage.partition import PartitionLog


class Executor(Protocol):
    """Runs `work` beside the owner of the logs; then, on the owner's side, `done` with the fault that it raised."""

    def __call__(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None: ...


class Syncer:
    def __init__(self, run: Executor, failed: Callable[[BaseException], None]) -> None:
        self.dirty: list[PartitionLog] = []
        self._waiting: list[Callable[[], None]] = []
        self._running = False
        self._broken = False
        """A sync or a write failed: nobody is answered any more. What is on the disk is not known, and no later sync can tell."""
        self._run = run
        self._failed = failed
        """Called when the disk refused: what was acknowledged can no longer be promised."""

    @property
    def settled(self) -> bool:
        """Everything that was ever written is on the disk."""
        return not self.dirty and not self._running and not self._broken

    def touched(self, log: PartitionLog) -> None:
        self.dirty.append(log)

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Calls back when everything that is written now is on the disk."""
        self._waiting.append(callback)
        if not self._running and not self._broken:
            self._start()

    def stop(self) -> None:
        """Nobody is called back any more."""
        self._broken = True
        self._waiting.clear()

    def _start(self) -> None:
        logs, self.dirty = self.dirty, []
        waiting, self._waiting = self._waiting, []
        descriptors = []
        for log in logs:
            log.dirty = False
            descriptors += [os.dup(segment.fd) for segment in log.segments[-2:] if segment.fd >= 0]
        self._running = True

        def work() -> None:
            try:
                for fd in descriptors:
                    os.fdatasync(fd)
            finally:
                for fd in descriptors:
                    os.close(fd)

        def done(fault: BaseException | None) -> None:
            self._running = False
            if self._broken:
                return
            if fault is not None:
                self.stop()
                self._failed(fault)
                return
            met: Exception | None = None
            for callback in waiting:
                try:
                    callback()
                except Exception as one:  # It stops nobody else; the first is raised at the end.
                    met = met or one
            if self._waiting:
                self._start()
            if met is not None:
                raise met

        self._run(work, done)
