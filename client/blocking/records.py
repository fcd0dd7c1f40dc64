"""Records that the application's threads add to the producer's batches, and the results that `send` returns."""

from __future__ import annotations

from collections.abc import Callable
from os import getpid
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.client.producer.batches import Content, EncodedRecords, Headers, RecordFuture, RecordMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.errors import IllegalStateError, ProduceFailedError, ProducerError
from stuntbroker.client.producer.session import Session, log

if TYPE_CHECKING:
    from stuntbroker.client.blocking.loop_thread import LoopThread

REFUSALS: Final = (ProducerError, IllegalStateError, TypeError, ValueError)
"""Errors of a record that is not added, and changes nothing. A signal handler may raise any other, at any moment."""


class ProducerThread(Protocol):
    """The part of a producer that its sent records use."""

    def wait_for(self, record: RecordFuture, timeout_s: float | None) -> None:
        """Wait until a record is written or has failed. Raises TimeoutError."""

    def call_soon(self, callback: Callable[..., object]) -> None:
        """Schedule a callback in the producer's thread."""


class SentRecord:
    """The result of one `send`, for any thread. It may be ignored: commit_transaction fails if a record has failed."""

    __slots__ = ("_future", "_producer")

    def __init__(self, producer: ProducerThread, future: RecordFuture) -> None:
        self._producer = producer
        self._future = future

    def done(self) -> bool:
        """Return whether the record is written, or has failed."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata (None: without a time-out) and return it. Raises ProduceFailedError, TimeoutError."""
        if not self._future.done():
            self._producer.wait_for(self._future, timeout_s)
        return self._future.result()

    def exception(self, timeout_s: float | None = None) -> ProduceFailedError | None:
        """Wait as `result` does; return why the record was not written, or None if it was. Raises TimeoutError."""
        if not self._future.done():
            self._producer.wait_for(self._future, timeout_s)
        return self._future.exception()

    def add_done_callback(self, callback: Callable[[SentRecord], object]) -> None:
        """Call `callback(self)` when the record is written or has failed.

        A finished record calls it at once in the current thread, any other in the producer's thread. Keep the callback short.
        """

        def call_back(_: RecordFuture) -> None:
            try:
                callback(self)
            except Exception:  # An error of the application must not end tasks of the producer's thread.
                log.exception("a callback of a record raised an error")

        if self._future.done():
            call_back(self._future)
        else:
            self._producer.call_soon(lambda: self._future.add_done_callback(call_back))


class RecordAppender:
    """Adds records to a producer's batches in the thread that calls it, while the producer's thread sends the batches.

    A record is copied into its batch at once, so that the application may change or reuse its value.
    """

    __slots__ = ("_dispatcher", "_loop_thread", "_name", "_process_id", "_thread_id", "ending_call", "lock")

    def __init__(self, session: Session, dispatcher: Dispatcher, thread: LoopThread) -> None:
        self._dispatcher = dispatcher
        self._loop_thread = thread
        self._process_id = getpid()
        self._thread_id = thread.ident
        self._name = f"producer {session.transactional_id!r}"
        self.lock = dispatcher.admit_threads()
        """Held while a record is added, and while a call that ends the transaction begins."""
        self.ending_call: str | None = None
        """Name of the call that is ending the transaction, if any."""

    def append(
        self,
        topic: str,
        value: Content,
        key: Content,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers | None,
    ) -> RecordFuture | None:
        """Add a record; return None, without adding it, if it has to wait or is to be refused.

        Raises what the asyncio producer's `send` does; IllegalStateError also while another thread ends the transaction, after
        `stop`, and in a forked process.
        """
        self._check("send")
        with self.lock:
            self._check_not_ending("send")
            try:
                return self._dispatcher.send_nowait(topic, value, key, partition, timestamp_ms, headers)
            except REFUSALS:
                raise
            except BaseException as interruption:
                self._fail("send", interruption)
                raise

    def append_batch(self, batch: EncodedRecords, topic: str, partition: int) -> RecordFuture | None:
        """Add an encoded batch; return and raise as `append` does."""
        self._check("send_batch")
        with self.lock:
            self._check_not_ending("send_batch")
            try:
                return self._dispatcher.send_batch_nowait(batch, topic, partition)
            except REFUSALS:
                raise
            except BaseException as interruption:
                self._fail("send_batch", interruption)
                raise

    def _check(self, method: str) -> None:
        # Before the lock is taken: in a forked process it may be held for ever.
        if getpid() != self._process_id or get_ident() == self._thread_id:
            self._loop_thread.check()
        if self._loop_thread.has_ended:
            raise IllegalStateError(f"{method}(): the connections of {self._name} are closed")

    def _check_not_ending(self, method: str) -> None:
        if self.ending_call is not None:
            raise IllegalStateError(f"{method}(): {self.ending_call}() of {self._name} has not ended")

    def _fail(self, method: str, interruption: BaseException) -> None:
        """Make the transaction abortable: a signal handler has raised an exception, and a batch may be inconsistent."""
        cause = ProducerError(f"{method}() was interrupted by {type(interruption).__name__}")
        cause.__cause__ = interruption
        self._loop_thread.loop.call_soon_threadsafe(self._dispatcher.fail, cause, True)
