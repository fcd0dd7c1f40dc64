"""Records that the application's threads add to the producer's batches, and the results that `send` returns."""

from __future__ import annotations

from collections.abc import Callable
from os import getpid
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from stuntbroker.client.logger import log
from stuntbroker.client.producer.batches import Content, EncodedRecords, Headers, RecordFuture, RecordMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.sender import Sender
from stuntbroker.client.transactional_errors import IllegalStateError, ProduceFailedError

if TYPE_CHECKING:
    from stuntbroker.client.blocking.loop_thread import LoopThread


class ProducerThread(Protocol):
    """The part of a producer that its sent records use."""

    def _wait_for(self, record: RecordFuture, timeout_s: float | None) -> None:
        """Wait until a record is written or has failed. Raises TimeoutError."""

    def _call_soon(self, callback: Callable[..., object]) -> None:
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
            self._producer._wait_for(self._future, timeout_s)
        return self._future.result()

    def exception(self, timeout_s: float | None = None) -> ProduceFailedError | None:
        """Wait as `result` does; return why the record was not written, or None if it was. Raises TimeoutError."""
        if not self._future.done():
            self._producer._wait_for(self._future, timeout_s)
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
            self._producer._call_soon(lambda: self._future.add_done_callback(call_back))


class RecordAppender:
    """Adds records to a producer's batches in the thread that calls it, while the producer's thread sends the batches.

    A record is copied into its batch at once, so that the application may change or reuse its value.
    """

    __slots__ = ("_dispatcher", "_loop_thread", "_name", "_process_id", "_sender", "_thread_id", "ending_call", "lock")

    def __init__(self, name: str, dispatcher: Dispatcher, sender: Sender, thread: LoopThread) -> None:
        """`name`: of the producer, for messages."""
        self._dispatcher = dispatcher
        self._sender = sender
        self._loop_thread = thread
        self._process_id = getpid()
        self._thread_id = thread.ident
        self._name = name
        self.lock = sender.admit_threads()
        """Held while a record is added, and while a call that ends the transaction begins."""
        self.ending_call: str | None = None
        """Name of the call that is ending the transaction, if any."""

    def append(
        self,
        topic: str,
        value: Content,
        key: Content,
        partition: int | None,
        timestamp_ms: Any,
        headers: Headers | None,
    ) -> RecordFuture | None:
        """Add a record; return None, without adding it, if only the producer's thread can send or refuse it.

        Raises what the asyncio producer's `send` does; IllegalStateError also while another thread ends the transaction, after
        `stop`, and in a forked process.
        """
        thread_id = self._check("send")
        if self._dispatcher.begins_spans_in_caller:
            self._check_not_ending("send")
            return self._dispatcher.send_with_callbacks(topic, value, key, partition, timestamp_ms, headers, thread_id)
        with self.lock:
            self._sender.owner = thread_id
            try:
                self._check_not_ending("send")
                return self._dispatcher.send_nowait(topic, value, key, partition, timestamp_ms, headers)
            finally:
                self._sender.owner = 0

    def append_batch(self, batch: EncodedRecords, topic: str, partition: int) -> RecordFuture | None:
        """Add an encoded batch; return and raise as `append` does."""
        thread_id = self._check("send_batch")
        with self.lock:
            self._sender.owner = thread_id
            try:
                self._check_not_ending("send_batch")
                return self._dispatcher.send_batch_nowait(batch, topic, partition)
            finally:
                self._sender.owner = 0

    def check_not_interrupted(self, thread_id: int) -> None:
        """Raise IllegalStateError in a signal handler that has interrupted `send` of the same thread, which holds the lock."""
        if self._sender.owner == thread_id:
            raise IllegalStateError(f"{self._name}: a signal handler that interrupts send() cannot call the producer")

    def _check(self, method: str) -> int:
        """Return the id of the current thread, if it may add records. Raises IllegalStateError."""
        thread_id = get_ident()
        # Before the lock is taken: in a forked process it may be held for ever.
        if getpid() != self._process_id or thread_id == self._thread_id:
            self._loop_thread.check()
        self.check_not_interrupted(thread_id)
        if self._loop_thread.has_ended:
            raise IllegalStateError(f"{method}(): the connections of {self._name} are closed")
        return thread_id

    def _check_not_ending(self, method: str) -> None:
        if self.ending_call is not None:
            raise IllegalStateError(f"{method}(): {self.ending_call}() of {self._name} has not ended")
