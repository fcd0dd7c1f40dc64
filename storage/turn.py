"""One turn of the event loop: decide, write, answer.

Small appends of a turn are gathered and written with one write a file; answers leave when that is done. The order of the
writes is the order in which they count after a crash:

    1  the transaction log: what a transaction is going to do (Ongoing, Prepare)
    2  the partitions: its records and markers
    3  whoever waits for records is woken, and the answers leave

The Complete record of a transaction decides nothing, so it may come late: it waits for the next write to its file. What is
deferred like that is never told to anybody before the markers are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stuntbroker.storage.errors import StorageError


class Gathering(Protocol):
    """A log that has appends which are not written yet."""

    leads: bool
    """It is written before the logs that do not lead."""
    waiters: set[Callable[[], None]]

    def flush(self) -> None: ...

    def gather_late(self) -> None: ...


class Turn:
    """What was appended and answered since the loop last came round."""

    __slots__ = ("_answers", "_arm", "_failed", "_following", "_late", "_leading", "armed")

    def __init__(self, arm: Callable[[Callable[[], None]], object], failed: Callable[[StorageError], None]) -> None:
        self.armed = False
        """Something is to be written: answers must wait for it."""
        self._arm = arm
        """Has `end` called when this turn of the loop is over."""
        self._failed = failed
        """Told when a file could not be written: what was decided upon it cannot be taken back, nor answered."""
        self._leading: list[Gathering] = []
        self._following: list[Gathering] = []
        self._late: list[Gathering] = []
        self._answers: list[tuple[Callable[[bytes | bytearray], object], bytes | bytearray]] = []

    def touched(self, log: Gathering) -> None:
        """A log has its first append that is not written."""
        (self._leading if log.leads else self._following).append(log)
        if not self.armed:
            self.armed = True
            self._arm(self.end)

    def has_late(self, log: Gathering) -> None:
        """A log has an append that comes after everything of this turn."""
        self._late.append(log)

    def answer(self, write: Callable[[bytes | bytearray], object], out: bytes | bytearray) -> None:
        """`write(out)` when everything that was appended until now is written."""
        self._answers.append((write, out))

    def flush(self) -> None:
        """Writes the files, in order. Raises StorageError."""
        leading, following = self._leading, self._following
        self._leading, self._following = [], []
        for log in leading:
            log.flush()
        for log in following:
            log.flush()
            if log.waiters:
                for waiter in log.waiters:
                    waiter()

    def end(self) -> None:
        answers, self._answers = self._answers, []
        try:
            self.flush()
        except StorageError as fault:
            self._failed(fault)
            return
        finally:
            self.armed = False
        if self._late:
            late, self._late = self._late, []
            for log in late:
                log.gather_late()
        for write, out in answers:
            write(out)
