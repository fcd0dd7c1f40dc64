"""One turn of the event loop: decide, write, respond.

Small appends of a turn are buffered and written with one write per file; responses are sent afterwards. The order of the
writes makes a crash between them recoverable:

    1  the transaction log: the next step of each transaction (Ongoing, Prepare)
    2  the partitions: records and markers
    3  waiting fetches are woken, and responses are sent

The Complete record of a transaction decides nothing, so it is deferred to the next write to its file. No response depends
on a deferred record before the markers are written.

The first write that fails is the last one, whatever the configured durability: decisions that depend on it can be neither
undone nor answered. Afterwards nothing is written or answered; a restart recovers everything that was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.points import Points


def ignore_fault(fault: StorageError) -> None:
    """Ignore a failed write: without a broker, only the caller of the append gets the error."""


def allow_writing() -> None:
    """Allow every write: without a broker, no log asks whether a write to another one has failed."""


class BufferedLog(Protocol):
    """A log with buffered appends."""

    flush_first: bool
    """True for the transaction log, which is written before all other logs."""
    waiters: set[Callable[[], None]]

    def wake_waiters(self) -> None:
        """Call the functions that wait for more records."""

    def batch_records(self) -> None:
        """Put the broker's own records into batches. Raises StorageError."""

    def flush(self) -> None:
        """Write what was appended. Raises StorageError."""

    def take_deferred(self) -> None:
        """Append the deferred records."""


class Receiver(Protocol):
    """The transport of a client's connection."""

    def write(self, data: Buffer, /) -> object:
        """Send data, or keep it to be sent."""

    def writelines(self, parts: list[Buffer], /) -> object:
        """Send several pieces of data, one after the other, as `write` does."""

    def abort(self) -> object:
        """Close the connection without sending what is left."""

    def is_closing(self) -> bool:
        """Whether the connection is closed or being closed."""


def _wake(logs: list[BufferedLog]) -> None:
    """Call the functions that wait for more records in these logs."""
    for log in logs:
        if log.waiters:
            log.wake_waiters()


class Turn:
    """Appends and responses of the current turn of the event loop."""

    __slots__ = (
        "_arm",
        "_deferred",
        "_failed",
        "_fault",
        "_flushed_after",
        "_flushed_first",
        "_refused",
        "_responses",
        "armed",
        "points",
    )

    def __init__(
        self,
        arm: Callable[[Callable[[], None]], object],
        failed: Callable[[StorageError], None],
        refused: Callable[[Exception], None],
        points: Points | None = None,
    ) -> None:
        self.points = points or Points()
        self.armed = False
        """True while appends are buffered: responses wait until they are written."""
        self._fault: StorageError | None = None
        """The error of the first write that failed: logs in memory differ from their files, and nothing is written any more."""
        self._arm = arm
        """Schedules `end` for the end of the current turn of the event loop."""
        self._failed = failed
        """Called with the error of the first write that failed."""
        self._refused = refused
        """Called with the exception of a transport that rejects a response though its client is connected."""
        self._flushed_first: list[BufferedLog] = []
        self._flushed_after: list[BufferedLog] = []
        self._deferred: list[BufferedLog] = []
        self._responses: dict[Receiver, bytes | bytearray] = {}

    def register(self, log: BufferedLog) -> None:
        """Register a log with its first buffered append."""
        (self._flushed_first if log.flush_first else self._flushed_after).append(log)
        if not self.armed:
            self._schedule_end()

    def defer(self, log: BufferedLog) -> None:
        """Register a log with an append that is to follow everything written in this turn."""
        self._deferred.append(log)
        if not self.armed:  # The markers were written in earlier turns.
            self._schedule_end()

    def _schedule_end(self) -> None:
        self.armed = True
        self._arm(self.end)

    def answer(self, receiver: Receiver, out: bytes | bytearray) -> None:
        """Send a response once everything that was appended so far is written."""
        responses = self._responses
        if receiver not in responses:
            responses[receiver] = out
        else:
            responses[receiver] += out  # The responses to several requests of one connection are sent together.

    def deliver(self, receiver: Receiver, out: Buffer) -> None:
        """Write a response to a client's transport; close the connection if that fails, so that other clients are unaffected."""
        try:
            receiver.write(out)
        except Exception as fault:
            self._close_refusing(receiver, fault)

    def deliver_parts(self, receiver: Receiver, parts: list[Buffer]) -> None:
        """Write a response in several parts, as `deliver` does."""
        try:
            receiver.writelines(parts)
        except Exception as fault:
            self._close_refusing(receiver, fault)

    def _close_refusing(self, receiver: Receiver, fault: Exception) -> None:
        receiver.abort()
        # uvloop raises RuntimeError when the client has closed its end and the loop has not called `connection_lost` yet.
        if not isinstance(fault, RuntimeError) or not receiver.is_closing():
            self._refused(fault)

    def flush(self) -> None:
        """Write all buffered appends, the transaction log first. Raises StorageError; no response is sent then."""
        first, after = self._flushed_first, self._flushed_after
        self._flushed_first, self._flushed_after = [], []
        try:
            self.check()
            if self.points.on_pass is not None and (first or after):
                self.points.pass_point("log.write.before")
            for log in first:
                log.batch_records()
            for log in first:
                log.flush()
            for log in after:
                log.flush()
            _wake(first)
            _wake(after)
            if self.points.on_pass is not None and (first or after):
                self.points.pass_point("log.write.after")
        except StorageError as fault:
            self.fail(fault)
            raise
        except Exception as fault:  # The data could not be encoded, so it was not written either.
            self.fail(StorageError(f"{type(fault).__name__}: {fault}"))
            raise

    def check(self) -> None:
        """Raise StorageError if an earlier write failed: logs in memory may not be written to disk any more."""
        if self._fault is not None:
            raise StorageError(f"an earlier write failed: {self._fault}") from self._fault

    def fail(self, fault: StorageError) -> None:
        """Handle a failed write: drop all responses and prevent further writes."""
        self._responses.clear()
        self.armed = True  # Permanently, so that no later response is sent.
        if self._fault is None:
            self._fault = fault
            self._failed(fault)

    def end(self) -> None:
        """Write everything that was appended, and send the responses that waited for it."""
        try:
            self.flush()
        except StorageError:
            return
        finally:
            self.armed = self._fault is not None
        responses, self._responses = self._responses, {}
        deferred, self._deferred = self._deferred, []
        for log in deferred:  # No response waits for these: they are written with the next append to their log.
            log.take_deferred()
        _wake(deferred)
        for receiver, out in responses.items():
            self.deliver(receiver, out)
