"""Records and batches on their way from the thread that sends them to the producer's, and what `send` returns for them."""

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
    """What a sent record needs of its producer."""

    def wait_for(self, record: SentRecord, timeout_s: float | None) -> None:
        """Wait until a record is written or has failed. Raises TimeoutError."""

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something in the producer's thread."""


class SentRecord:
    """The result of one `send`, for any thread. It need not be looked at: commit_transaction fails if a record did."""

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
        """Wait, and return where the record was written. Raises ProduceFailedError, TimeoutError."""
        if not self.done():
            self._producer.wait_for(self, timeout_s)
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        assert self._future is not None
        return self._future.result()

    def exception(self, timeout_s: float | None = None) -> ProduceFailedError | None:
        """Wait, and return why the record was not written; None if it was. Raises TimeoutError."""
        try:
            self.result(timeout_s)
        except ProduceFailedError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[SentRecord], object]) -> None:
        """Call `callback(self)` when the record is written or has failed: here if it is done, else in the producer's thread.

        Let it be short.
        """
        if self.done():
            self._call_back(callback)
        else:
            self._producer.call_soon(self.attach, callback)

    # --- in the producer's thread

    def take(self, future: RecordFuture) -> None:
        """The producer has taken the record."""
        self._future = future
        self._attach_all()

    def refuse(self, cause: BaseException) -> None:
        """The producer did not take the record."""
        is_of_transaction = isinstance(cause, ProducerError | IllegalStateError)
        failure_type = FailureType.TRANSACTION_FAILED if is_of_transaction else FailureType.MESSAGE_REJECTED
        error = ProduceFailedError(f"the record was not taken: {cause}", failure_type)
        error.__cause__ = root_of(cause)
        self._refusal = error
        self._attach_all()

    async def wait(self) -> None:
        """Wait until it is done."""
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
        except Exception:  # It is the application's, and must not end what goes on in the producer's thread.
            log.exception("a callback of a record raised an error")


class HandedRecord(NamedTuple):
    """A record on its way from the thread that sends it to the producer's."""

    sent: SentRecord
    context: Context | None
    """Context of the thread that sends it, if there is a tracer: it has the current span."""
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: Headers | None

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send it, unless that would wait: then return None."""
        if self.context is not None:
            return self.context.run(dispatcher.send_nowait, *self[2:])
        return dispatcher.send_nowait(*self[2:])

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send it."""
        return await asyncio.get_running_loop().create_task(dispatcher.send(*self[2:]), context=self.context)


class HandedBatch(NamedTuple):
    """An encoded batch on its way from the thread that sends it to the producer's."""

    sent: SentRecord
    topic: str
    batch: EncodedRecords
    partition: int

    def send_nowait(self, dispatcher: Dispatcher) -> RecordFuture | None:
        """Send it, unless that would wait: then return None."""
        return dispatcher.send_batch_nowait(self.batch, self.topic, self.partition)

    async def send(self, dispatcher: Dispatcher) -> RecordFuture:
        """Send it."""
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
