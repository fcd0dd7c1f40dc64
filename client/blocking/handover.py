"""Records and batches that application threads hand over to the producer's thread, and the results that `send` returns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from typing import Any, NamedTuple, Protocol, TypeAlias

from stuntbroker.client.producer.batches import EncodedRecords, Headers, RecordFuture, RecordMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.errors import (
    FailureType,
    IllegalStateError,
    ProduceFailedError,
    ProducerError,
    root_of,
)
from stuntbroker.client.producer.session import log


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
        error = ProduceFailedError(f"the record was not taken: {cause}", failure_type)
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


class HandedRecord(NamedTuple):
    """A record that the sending thread hands over to the producer's thread."""

    sent: SentRecord
    context: Context | None
    """Context of the sending thread, with its current span; None without a tracer."""
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: Headers | None

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send the record; return None, without sending it, if that would have to wait."""
        if self.context is not None:
            return self.context.run(dispatcher.send_nowait, *self[2:])
        return dispatcher.send_nowait(*self[2:])

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send the record, waiting if necessary."""
        return await asyncio.get_running_loop().create_task(dispatcher.send(*self[2:]), context=self.context)


class HandedBatch(NamedTuple):
    """An encoded batch that the sending thread hands over to the producer's thread."""

    sent: SentRecord
    topic: str
    batch: EncodedRecords
    partition: int

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send the batch; return None, without sending it, if that would have to wait."""
        return dispatcher.send_batch_nowait(self.batch, self.topic, self.partition)

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send the batch, waiting if necessary."""
        return await dispatcher.send_batch(self.batch, self.topic, self.partition)


Handed: TypeAlias = HandedRecord | HandedBatch


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
