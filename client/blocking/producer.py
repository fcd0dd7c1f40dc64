"""`TransactionalProducer` without asyncio: every call waits in the thread that makes it, but for `send`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from operator import index
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from aiokafka.producer.message_accumulator import BatchBuilder

from stuntbroker.client.blocking.connections import Connections
from stuntbroker.client.blocking.handover import (
    Handed,
    HandedBatch,
    HandedRecord,
    SentRecord,
    check_headers,
    copy_bytes,
)
from stuntbroker.client.blocking.loop_thread import LoopThread, same_options
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer import producer as asynchronous
from stuntbroker.client.producer.arguments import Offsets, timestamp_of
from stuntbroker.client.producer.batches import BatchLike, Headers, RecordMetadata, read_batch
from stuntbroker.client.producer.coordination import GroupMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.errors import IllegalStateError, ProducerError
from stuntbroker.client.producer.states import State

Result = TypeVar("Result")
HANDED_OVER_MAX: Final = 1 << 20
"""Bytes of records that `send` hands to the other thread before it waits for it once."""
RECORD_OVERHEAD: Final = 64
"""Bytes that a record counts for besides its key and value."""


class TransactionalProducer:
    """Writes records to Kafka in transactions, as the class of the same name for asyncio does.

        with TransactionalProducer(bootstrap_servers="localhost:9092", transactional_id="orders-1") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"a record")

    Options, calls and errors are the same; `connections` are the Connections of this package. Any thread may use it; a
    forked process has to make another one.
    """

    @same_options(asynchronous.TransactionalProducer)
    def __init__(self, **options: Any) -> None:
        shared = options.pop("connections", None)
        if not isinstance(shared, Connections | None):
            raise TypeError("connections have to be a stuntbroker.client.blocking.Connections")
        self._shared = shared
        self._twin = asynchronous.TransactionalProducer(
            **options | {"key_serializer": None, "value_serializer": None, "connections": shared and shared.twin}
        )
        self._key_serializer = options.get("key_serializer")
        self._value_serializer = options.get("value_serializer")
        self._hands_over = options.get("partitioner") is None
        """Whether `send` need not wait. It has to, to raise what a partitioner of the application's raises."""
        self._is_traced = options.get("tracer") is not None
        self._name = f"producer {self._twin.transactional_id!r}"
        self._thread: LoopThread | None = None
        self._handover_lock = threading.Lock()
        """Held while a record is handed over, and while a call that records may not overtake begins."""
        self._ending_call: str | None = None
        """The call that ends the transaction, while it is under way."""
        self._partitions: dict[str, frozenset[int]] = {}
        self._handed: deque[Handed] = deque()
        self._handed_bytes = 0
        self._is_woken = False
        self._waiting: asyncio.Task[None] | None = None
        """Takes over what `send` of the twin has to wait for."""

    # --- life

    def start(self) -> None:
        """Connect to the cluster.

        Raises aiokafka's KafkaConnectionError when none of the bootstrap servers answers, AuthenticationError.
        """
        if self._thread is not None or self._twin.state is State.CLOSED:
            raise IllegalStateError(f"{self._name} was started before")
        thread = LoopThread(f"stuntbroker {self._name}") if self._shared is None else self._shared.thread
        self._thread = thread
        try:
            thread.call(self._twin.start)
        except BaseException:
            self._thread = None
            self._end_thread(thread)
            raise
        thread.exit_handlers.append(self._close_at_exit)

    async def _close_at_exit(self) -> None:
        await self._twin.stop(leave_open=True)

    def _end_thread(self, thread: LoopThread) -> None:
        if self._close_at_exit in thread.exit_handlers:
            thread.exit_handlers.remove(self._close_at_exit)
        if self._shared is None:
            thread.stop()

    def stop(self, *, leave_open: bool = False) -> None:
        """Abort the transaction that is open, unless it is prepared or was joined, and close all connections.

        `leave_open`: do not abort, as if the process had ended: the transaction is left to its time-out. May be called
        twice. Connections that were given stay open.
        """
        thread = self._thread
        if thread is None or not thread.is_running:
            return
        thread.check()
        try:
            if self._twin.state is not State.CLOSED:
                thread.call(self._after_dropping_records(lambda: self._twin.stop(leave_open=leave_open)))
        finally:
            self._end_thread(thread)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def transactional_id(self) -> str:
        """The transactional id."""
        return self._twin.transactional_id

    @property
    def state(self) -> State:
        """What the producer is doing."""
        return self._twin.state

    @property
    def identity(self) -> PreparedTxnState:
        """Producer id and epoch that requests carry; -1 and -1 before init_transactions."""
        return self._twin.identity

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that abort_transaction would abort now."""
        return self._twin.can_abort

    # --- transactions

    def init_transactions(self, keep_prepared_txn: bool = False) -> None:
        """Initialise the transactional id: every other producer that has it is fenced. Call it once, first."""
        self._call(lambda: self._twin.init_transactions(keep_prepared_txn))

    def join_transaction(self, identity: PreparedTxnState | str) -> None:
        """Take part in a transaction of another producer with this transactional id, which has shared it."""
        self._call(lambda: self._twin.join_transaction(identity))

    def begin_transaction(self) -> None:
        """Begin a transaction. No request is sent: the brokers learn of it by its first record or offset."""
        self._call(self._twin.begin_transaction)

    def share_transaction(self) -> PreparedTxnState:
        """Let other producers join the transaction; return what `join_transaction` of theirs needs."""

        async def share() -> PreparedTxnState:
            return self._twin.share_transaction()

        return self._call(share)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, commit it at the end of the block, and abort it if the block or the commit raises.

        A transaction that the block has prepared is not aborted, what the block has ended itself is left as it is.
        """
        self.begin_transaction()
        try:
            yield self
            if self._twin._has_to_be_ended:
                self.commit_transaction()
        except BaseException:
            if self.can_abort and self.state is not State.PREPARED_TRANSACTION:
                self.abort_transaction()
            raise

    def commit_transaction(self) -> None:
        """Wait for all records, and commit. Raises CommitFailedError, FatalError, OperationTimedOutError (KIP-691)."""
        self._end("commit_transaction", self._after_records(self._twin.commit_transaction))

    def abort_transaction(self) -> None:
        """Abort the transaction: none of its records will be read by read_committed consumers."""
        self._end("abort_transaction", self._after_dropping_records(self._twin.abort_transaction))

    def prepare_transaction(self) -> PreparedTxnState:
        """Wait for all records, and prepare the transaction: from now on it can only be completed (KIP-939)."""
        return self._end("prepare_transaction", self._after_records(self._twin.prepare_transaction))

    def complete_transaction(self, state: PreparedTxnState | str) -> bool:
        """Commit if `state` names the prepared transaction, else abort it (KIP-939). Return whether it was committed."""
        return self._end("complete_transaction", lambda: self._twin.complete_transaction(state))

    # --- records and offsets

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> SentRecord:
        """Add a record to the transaction; return a future of where it is written. Do not wait for each.

        Waits while the topic's metadata is not known, or the buffer is full. Raises TransactionAbortableError, FatalError,
        IllegalStateError; whatever a serializer raises.
        """
        self._running().check()
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        key_bytes, value_bytes = copy_bytes(key_bytes), copy_bytes(value_bytes)
        headers = check_headers(headers) if headers else None
        if timestamp_ms is not None:
            timestamp_ms = timestamp_of(timestamp_ms)
        if partition is not None:
            partition = index(partition)
        record = SentRecord(self)
        context = copy_context() if self._is_traced else None
        handed = HandedRecord(record, context, topic, value_bytes, key_bytes, partition, timestamp_ms, headers)
        size = len(key_bytes or b"") + len(value_bytes or b"") + RECORD_OVERHEAD
        if not self._hand_over("send", handed, size):
            self._call(lambda: self._send_and_learn(handed))
        return record

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch for `send_batch`. Its `append(timestamp=, key=, value=)` returns None when it is full."""
        return self._running_dispatcher().create_batch(self._key_serializer, self._value_serializer)

    def send_batch(self, batch: BatchLike, topic: str, *, partition: int) -> SentRecord:
        """Add a batch to the transaction; return a future of where its first record is written.

        `batch`: what `create_batch` returned, or the bytes of one record batch v2. A copy of it is sent.
        """
        self._running().check()
        handed = HandedBatch(SentRecord(self), topic, read_batch(batch), partition)
        if not self._hand_over("send_batch", handed, len(handed.batch.data)):
            self._call(lambda: self._send_and_learn(handed))
        return handed.sent

    def _hand_over(self, name: str, handed: Handed, size: int) -> bool:
        """Leave a record or a batch to the other thread. Return False when it has to be waited for."""
        with self._handover_lock:
            thread = self._running()
            if not thread.is_running:
                raise IllegalStateError(f"{name}(): the connections of {self._name} are closed")
            if self._ending_call is not None:
                raise IllegalStateError(f"{name}(): {self._ending_call}() of {self._name} has not ended")
            known = self._partitions.get(handed.topic)
            if (
                not self._hands_over
                or known is None
                or (handed.partition is not None and handed.partition not in known)
                or self._handed_bytes + size > HANDED_OVER_MAX
                or self._twin.state is not State.IN_TRANSACTION
            ):
                return False
            self._handed_bytes += size
            self._handed.append(handed)
            if not self._is_woken:
                self._is_woken = True
                thread.loop.call_soon_threadsafe(self._take_over)
            return True

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """Add a record to the transaction, wait until it is written, and return its RecordMetadata."""
        return self.send(topic, value, key, partition, timestamp_ms, headers).result()

    def flush(self) -> None:
        """Wait until every record that was sent is written. Raises TransactionAbortableError, FatalError."""
        self._call(self._twin.flush)

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        return self._call(lambda: self._twin.partitions_for(topic))

    def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group with the transaction (KIP-447). An offset is that of the next record to read."""
        self._call(lambda: self._twin.send_offsets_to_transaction(offsets, group_metadata))

    def wait_for(self, record: SentRecord, timeout_s: float | None) -> None:
        """Wait until a record is written or has failed. Raises TimeoutError."""
        self._call(record.wait, timeout_s)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something in the producer's thread."""
        thread = self._running()
        thread.check()
        thread.loop.call_soon_threadsafe(callback, *arguments)

    # --- from thread to thread

    def _running(self) -> LoopThread:
        if self._thread is None or self._twin.state is State.CLOSED:
            raise IllegalStateError(f"{self._name} is not started, or closed")
        return self._thread

    def _running_dispatcher(self) -> Dispatcher:
        self._running()
        return self._twin._dispatcher

    def _call(self, work: Callable[[], Coroutine[Any, Any, Result]], timeout_s: float | None = None) -> Result:
        """Do something in the other thread, behind every record that was handed over before."""
        return self._running().call(self._after_records(work), timeout_s)

    def _after_records(
        self, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Callable[[], Coroutine[Any, Any, Result]]:
        async def after_records() -> Result:
            while self._handed:
                self._take_over()
                if self._waiting is not None:
                    await asyncio.wait({self._waiting})  # It goes on when whoever waits for it gives up.
            return await work()

        return after_records

    def _after_dropping_records(
        self, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Callable[[], Coroutine[Any, Any, Result]]:
        async def drop_records() -> Result:
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.wait({self._waiting})
            self._handed_bytes = 0
            while self._handed:
                self._handed.popleft().sent.refuse(ProducerError("the transaction was aborted"))
            return await work()

        return drop_records

    def _end(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Make a call that no record may overtake."""
        self._running().check()  # First: in a forked process the lock may be held for ever.
        is_mine = False
        try:
            with self._handover_lock:
                if self._ending_call is not None:
                    raise IllegalStateError(f"{name}(): {self._ending_call}() of {self._name} has not ended")
                is_mine = True  # First: Ctrl-C may come between any two steps.
                self._ending_call = name
            return self._running().call(work)
        finally:
            if is_mine:
                self._ending_call = None

    # --- in the producer's thread

    def _take_over(self) -> None:
        """Take the records that were handed over. Those that have to wait are taken by a task."""
        self._is_woken = False
        if self._waiting is None and not self._take_ready():
            self._waiting = asyncio.ensure_future(self._take_waiting())

    def _take_ready(self) -> bool:
        """Take what need not wait. Return whether that was all."""
        while self._handed:
            handed = self._handed[0]
            try:
                future = handed.send_nowait(self._running_dispatcher())
            except Exception as error:
                self._refuse(handed, error)
            else:
                if future is None:
                    return False
                handed.sent.take(future)
            self._handed.popleft()
        self._handed_bytes = 0
        return True

    async def _take_waiting(self) -> None:
        try:
            while not self._take_ready():
                handed = self._handed[0]
                try:
                    handed.sent.take(await handed.send(self._running_dispatcher()))
                except Exception as error:
                    self._refuse(handed, error)
                self._handed.popleft()
        finally:
            self._waiting = None

    def _refuse(self, handed: Handed, error: Exception) -> None:
        """Nobody hears of the error but by the record: so the transaction must not be committed without it."""
        cause = error if isinstance(error, ProducerError) else ProducerError(f"send(): {error}")
        self._running_dispatcher().fail(cause)
        handed.sent.refuse(error)

    async def _send_and_learn(self, handed: Handed) -> None:
        handed.sent.take(await handed.send(self._running_dispatcher()))
        self._partitions[handed.topic] = self._running_dispatcher().known_partitions(handed.topic)
