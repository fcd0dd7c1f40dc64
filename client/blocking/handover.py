"""Records and batches that application threads hand over to the producer's thread, and the results that `send` returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from stuntbroker.client.producer.batches import EncodedRecords, Headers, RecordFuture, RecordMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.errors import (
    FailureType,
    IllegalStateError,
    ProduceFailedError,
    ProducerError,
    root_of,
)
from stuntbroker.client.producer.session import Session, log
from stuntbroker.client.producer.states import State

if TYPE_CHECKING:
    from stuntbroker.client.blocking.loop_thread import LoopThread

HANDED_OVER_MAX: Final = 1 << 20
"""Maximum bytes of records that are handed over; then `send` waits until the producer's thread has taken them."""
RECORD_OVERHEAD: Final = 64
"""Bytes that a record counts in addition to its key and value."""


class ProducerThread(Protocol):
    """The part of a producer that its sent records use."""

    def wait_for(self, record: SentRecord, timeout_s: float | None) -> None:
        """Wait until a record is written or has failed. Raises TimeoutError."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Schedule a callback in the producer's thread."""


class SentRecord:
    """The result of one `send`, for any thread. It may be ignored: commit_transaction fails if a record has failed."""

    __slots__ = ("_callbacks", "_future", "_producer", "_refusal")

    def __init__(self, producer: ProducerThread) -> None:
        self._producer = producer
        self._future: RecordFuture | None = None
        self._refusal: ProduceFailedError | None = None
        self._callbacks: tuple[Callable[[SentRecord], object], ...] = ()

    def done(self) -> bool:
        """Return whether the record is written, or has failed."""
        return self._refusal is not None or (self._future is not None and self._future.done())

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata (None: without a time-out) and return it. Raises ProduceFailedError, TimeoutError."""
        if not self.done():
            self._producer.wait_for(self, timeout_s)
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        assert self._future is not None
        return self._future.result()

    def exception(self, timeout_s: float | None = None) -> ProduceFailedError | None:
        """Wait as `result` does; return why the record was not written, or None if it was. Raises TimeoutError."""
        try:
            self.result(timeout_s)
        except ProduceFailedError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[SentRecord], object]) -> None:
        """Call `callback(self)` when the record is written or has failed.

        A finished record calls it at once in the current thread, any other in the producer's thread. Keep the callback short.
        """
        if self.done():
            self._call_back(callback)
        else:
            self._producer.call_soon(self.attach, callback)

    # --- in the producer's thread

    def take(self, future: RecordFuture) -> None:
        """Set the future of a record that the producer has taken."""
        self._future = future
        self._attach_all()

    def refuse(self, cause: BaseException) -> None:
        """Fail a record that the producer did not take."""
        is_of_transaction = isinstance(cause, ProducerError | IllegalStateError)
        failure_type = FailureType.TRANSACTION_FAILED if is_of_transaction else FailureType.MESSAGE_REJECTED
        error = ProduceFailedError(f"the record was not accepted: {cause}", failure_type)
        error.__cause__ = root_of(cause)
        self._refusal = error
        self._attach_all()

    async def wait(self) -> None:
        """Wait until the record is written or has failed."""
        if self._future is not None and not self._future.done():
            with contextlib.suppress(ProduceFailedError):
                await self._future

    def attach(self, callback: Callable[[SentRecord], object]) -> None:
        """Call `callback` when the record is written or has failed."""
        self._callbacks = (*self._callbacks, callback)
        self._attach_all()

    def _attach_all(self) -> None:
        if self._future is None and self._refusal is None:
            return
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            if self._future is None or self._future.done():
                self._call_back(callback)
            else:
                self._future.add_done_callback(lambda _, callback=callback: self._call_back(callback))  # type: ignore[misc]

    def _call_back(self, callback: Callable[[SentRecord], object]) -> None:
        try:
            callback(self)
        except Exception:  # An error of the application must not end tasks of the producer's thread.
            log.exception("a callback of a record raised an error")


class HandedRecord:
    """A record that the sending thread hands over to the producer's thread."""

    __slots__ = ("_context", "_headers", "_key", "_timestamp_ms", "_value", "partition", "sent", "size", "topic")

    def __init__(
        self,
        sent: SentRecord,
        context: Context | None,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers | None,
    ) -> None:
        """Copy what the application may change. Raises TypeError for a value, a key or a header that cannot be sent.

        `context`: that of the sending thread, with its current span; None without a tracer.
        """
        self.sent = sent
        self.topic = topic
        self.partition = partition
        self._context = context
        self._value = copy_bytes(value)
        self._key = copy_bytes(key)
        self._timestamp_ms = timestamp_ms
        self._headers = check_headers(headers) if headers else None
        self.size = RECORD_OVERHEAD
        """Bytes that the record counts while it is handed over."""
        if self._value is not None:
            self.size += len(self._value)
        if self._key is not None:
            self.size += len(self._key)

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send the record; return None, without sending it, if that would have to wait."""
        if self._context is not None:
            return self._context.run(
                dispatcher.send_nowait,
                self.topic,
                self._value,
                self._key,
                self.partition,
                self._timestamp_ms,
                self._headers,
            )
        return dispatcher.send_nowait(
            self.topic, self._value, self._key, self.partition, self._timestamp_ms, self._headers
        )

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send the record, waiting if necessary."""
        sending = dispatcher.send(self.topic, self._value, self._key, self.partition, self._timestamp_ms, self._headers)
        return await asyncio.get_running_loop().create_task(sending, context=self._context)


class HandedBatch:
    """An encoded batch that the sending thread hands over to the producer's thread."""

    __slots__ = ("_batch", "partition", "sent", "size", "topic")

    def __init__(self, sent: SentRecord, topic: str, batch: EncodedRecords, partition: int) -> None:
        self.sent = sent
        self.topic = topic
        self.partition = partition
        self.size = len(batch.data)
        self._batch = batch

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send the batch; return None, without sending it, if that would have to wait."""
        return dispatcher.send_batch_nowait(self._batch, self.topic, self.partition)

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send the batch, waiting if necessary."""
        return await dispatcher.send_batch(self._batch, self.topic, self.partition)


Handed: TypeAlias = HandedRecord | HandedBatch


class Handover:
    """The records and batches that application threads have handed over, and the producer's thread has not taken yet."""

    __slots__ = (
        "_bytes",
        "_dispatcher",
        "_is_used",
        "_loop_thread",
        "_name",
        "_process_id",
        "_session",
        "_thread_id",
        "_wake",
        "ending_call",
        "is_woken",
        "lock",
        "partitions",
        "queue",
    )

    def __init__(
        self,
        session: Session,
        dispatcher: Dispatcher,
        thread: LoopThread,
        is_used: bool,
        wake: Callable[[], object],
    ) -> None:
        """`wake`: makes the thread call `take_ready`. `is_used`: False if `send` has to wait until each record is taken."""
        self._loop_thread = thread
        self._process_id = os.getpid()
        self._thread_id = thread.ident
        self._is_used = is_used
        self.lock = threading.Lock()
        """Held while a record is handed over, and while a call that ends the transaction begins."""
        self.ending_call: str | None = None
        """Name of the call that is ending the transaction, if any."""
        self.partitions: dict[str, frozenset[int]] = {}
        """Topic -> its partitions, as far as they are known."""
        self.queue: deque[Handed] = deque()
        self._name = f"producer {session.transactional_id!r}"
        self._session = session
        self._dispatcher = dispatcher
        self._wake = wake
        self._bytes = 0
        self.is_woken = False
        """Whether `wake` was called since the thread has begun to take records."""

    def offer(self, name: str, handed: Handed) -> bool:
        """Hand a record or a batch over to the producer's thread; return False if it has to be sent by a call that waits.

        Raises IllegalStateError while another thread ends the transaction, after `stop`, and in a forked process. `name`: the
        method, for messages.
        """
        if os.getpid() != self._process_id or threading.get_ident() == self._thread_id:
            self._loop_thread.check()
        if self._loop_thread.has_ended:
            raise IllegalStateError(f"{name}(): the connections of {self._name} are closed")
        with self.lock:
            if self.ending_call is not None:
                raise IllegalStateError(f"{name}(): {self.ending_call}() of {self._name} has not ended")
            known = self.partitions.get(handed.topic)
            partition = handed.partition
            if (
                not self._is_used
                or known is None
                or (partition is not None and partition not in known)
                or self._bytes + handed.size > HANDED_OVER_MAX
                or self._session.state is not State.IN_TRANSACTION
            ):
                return False
            self._bytes += handed.size
            self.queue.append(handed)
            if not self.is_woken:
                self.is_woken = True
                self._wake()
            return True

    # --- in the producer's thread

    def take_ready(self) -> bool:
        """Take the records up to the first that has to wait. Return whether all were taken."""
        queue = self.queue
        while queue:
            handed = queue[0]
            try:
                future = handed.send_nowait(self._dispatcher)
            except Exception as error:
                self.refuse(handed, error)
            else:
                if future is None:
                    return False
                handed.sent.take(future)
            queue.popleft()
        self._bytes = 0
        return True

    async def take_waiting(self) -> None:
        """Take all records, waiting for those that have to wait."""
        while not self.take_ready():
            handed = self.queue[0]
            try:
                handed.sent.take(await handed.send(self._dispatcher))
            except Exception as error:
                self.refuse(handed, error)
            self.queue.popleft()

    def drop(self) -> None:
        """Fail all records, because the transaction is aborted."""
        self._bytes = 0
        while self.queue:
            self.queue.popleft().sent.refuse(ProducerError("the transaction was aborted"))

    def refuse(self, handed: Handed, error: Exception) -> None:
        """Fail a record, and its transaction: `send` has returned already, so that only the commit can raise the error."""
        if isinstance(error, ProducerError):
            cause = error
        else:
            cause = ProducerError(f"send(): {error}")
            cause.__cause__ = error
        self._dispatcher.fail(cause)
        handed.sent.refuse(error)


def copy_bytes(part: Any) -> bytes | None:
    """Return a key or value as it is now: the application may change a bytearray before the other thread has taken it."""
    if part is None or isinstance(part, bytes):
        return part
    if isinstance(part, bytearray | memoryview):
        return bytes(part)
    raise TypeError(f"a key or value is bytes or None, not {type(part).__name__}: use a serializer")


def check_headers(headers: Headers) -> Headers:
    """Return a copy of headers. Raises TypeError here, in the application's thread."""
    copy = list(headers)  # They may be an iterator.
    for name, value in copy:
        if not isinstance(name, str) or not isinstance(value, bytes | None):
            raise TypeError(
                f"a header is a str and bytes or None, not {type(name).__name__} and {type(value).__name__}"
            )
    return copy
