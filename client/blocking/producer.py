"""`TransactionalProducer` without asyncio: every call except `send` blocks its thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from aiokafka.producer.message_accumulator import BatchBuilder

from stuntbroker.client.blocking.claim import Claim
from stuntbroker.client.blocking.connections import Connections
from stuntbroker.client.blocking.loop_thread import Delivery, LoopThread, same_options
from stuntbroker.client.blocking.records import RecordAppender, SentRecord
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer import producer as asynchronous
from stuntbroker.client.producer.arguments import Offsets
from stuntbroker.client.producer.batches import BatchLike, Headers, RecordFuture, RecordMetadata, read_batch
from stuntbroker.client.producer.blocks import TransactionBlock
from stuntbroker.client.producer.coordination import GroupMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.states import State
from stuntbroker.client.transactional_errors import IllegalStateError, OperationTimedOutError, ProduceFailedError

Result = TypeVar("Result")


class TransactionalProducer:
    """Writes records to Kafka in transactions, like the asyncio class of the same name.

        with TransactionalProducer(bootstrap_servers="localhost:9092", transactional_id="orders-1") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"a record")

    Options, methods and errors are the same; `connections` are the Connections of this package. Any thread may use a
    producer; a forked process has to create its own.
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
        self._name = f"producer {self._twin.transactional_id!r}"
        self._session = self._twin._session
        self._thread: LoopThread | None = None
        self._claim = Claim()
        """Held by the call of `start` that runs, or has succeeded."""
        self._appender: RecordAppender | None = None
        self._delivery = Delivery()

    # --- start and stop

    def start(self) -> None:
        """Connect to the cluster.

        Raises AuthenticationError, or aiokafka's KafkaConnectionError if none of the bootstrap servers answers; IllegalStateError
        if it was started before, or another thread stops it meanwhile.
        """
        thread: LoopThread | None = None
        caller = object()
        try:
            if self._twin.state is State.CLOSED or not self._claim.take(caller):
                raise IllegalStateError(f"{self._name} was started before")
            thread = LoopThread(f"stuntbroker {self._name}") if self._shared is None else self._shared.thread
            self._thread = thread
            thread.call(self._twin.start)
            self._appender = RecordAppender(self._name, self._twin._dispatcher, self._twin._sender, thread)
        except BaseException:
            if self._claim.is_of(caller):
                self._thread = None
                if thread is not None:
                    self._end_thread(thread)
                self._claim.release(caller)
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
        """Abort the open transaction, unless it is prepared or was joined, and close all connections.

        `leave_open`: do not abort; the transaction is left to its time-out, as if the process had died. May be called twice.
        Shared `connections` stay open.
        """
        thread = self._thread
        if thread is None or not thread.is_running:
            return
        thread.check()
        if self._appender is not None:
            self._appender.check_not_interrupted(threading.get_ident())
        self._note_undelivered_state()
        try:
            if self._twin.state is not State.CLOSED:
                thread.call(lambda: self._twin.stop(leave_open=leave_open))
        finally:
            self._end_thread(thread)

    def _note_undelivered_state(self) -> None:
        """Tell the twin whether the caller of `prepare_transaction` has got the state by which to complete it."""
        self._twin._calls.has_undelivered_state = self._delivery.holds("prepare_transaction")

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
        """State of the producer."""
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
        """Initialise the transactional id and fence every other producer that uses it. Call this once, before other calls.

        An open transaction of the id is aborted. With `keep_prepared_txn` it stays open, and `complete_transaction` has to
        follow (KIP-939). Raises FatalError, OperationTimedOutError; TransactionAbortableError, after which it may be repeated.
        """
        self._end("init_transactions", lambda: self._twin.init_transactions(keep_prepared_txn), keep_prepared_txn)

    def join_transaction(self, identity: PreparedTxnState | str) -> None:
        """Join a transaction that another producer with this transactional id has shared.

        `identity`: the result of `share_transaction`, or its text. Raises FatalError, OperationTimedOutError.
        """
        self._deliver("join_transaction", lambda: self._twin.join_transaction(identity), str(identity))

    def begin_transaction(self) -> None:
        """Begin a transaction. No request is sent before its first record or offset."""
        self._deliver("begin_transaction", self._twin.begin_transaction)

    def share_transaction(self) -> PreparedTxnState:
        """Let other producers join the transaction; return the identity to pass to their `join_transaction`."""

        async def share() -> PreparedTxnState:
            return self._twin.share_transaction()

        return self._call(share)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, commit it at the end of the block, and abort it if the block or the commit raises.

        A transaction that the block has prepared is not aborted, unless a signal interrupted `prepare_transaction`, so that it
        has returned no state; one that was ended within the block is left as it is. Raises IllegalStateError if another
        thread has aborted it, by `stop` for example: its records are lost.
        """
        block = TransactionBlock(self._session, self._twin._calls)
        with block.entered():
            self.begin_transaction()
            try:
                yield self
                if block.has_to_be_committed():
                    self.commit_transaction()
            except BaseException:
                self._note_undelivered_state()
                if block.has_to_be_aborted:
                    self.abort_transaction()
                raise

    def commit_transaction(self) -> None:
        """Wait until all records are written, and commit.

        Raises CommitFailedError if nothing is committed: abort, then continue. Raises OperationTimedOutError if the outcome is
        not known yet: call it again. Any other error is fatal (KIP-691).
        """
        self._end("commit_transaction", self._twin.commit_transaction)

    def abort_transaction(self) -> None:
        """Abort the transaction: none of its records will be read by read_committed consumers.

        Records that are not written yet fail. Raises FatalError, OperationTimedOutError.
        """
        self._end("abort_transaction", self._twin.abort_transaction)

    def prepare_transaction(self) -> PreparedTxnState:
        """Wait until all records are written, and prepare the transaction: then it can only be completed (KIP-939).

        Store the result as text (`str`) in your database, in the same transaction as your decision. After an interruption, call
        it again for the result, or abort. Raises TransactionAbortableError, FatalError; IllegalStateError without `enable_2pc`.
        """
        return self._end("prepare_transaction", self._twin.prepare_transaction)

    def complete_transaction(self, state: PreparedTxnState | str) -> bool:
        """Commit the prepared transaction if `state` identifies it, else abort it (KIP-939). Return whether it was committed.

        `state`: the result of prepare_transaction, or its text; after init_transactions(keep_prepared_txn=True), the text that
        was stored. Returns False if there is no transaction. Raises ValueError for an invalid text, FatalError,
        OperationTimedOutError.
        """
        return self._end("complete_transaction", lambda: self._twin.complete_transaction(state), str(state))

    # --- records and offsets

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Headers | None = None,
    ) -> SentRecord:
        """Add a record to the transaction; return a future of its metadata. Do not wait for each future.

        Blocks while the topic's metadata is not known, or the buffer is full. Raises TransactionAbortableError, FatalError,
        IllegalStateError, and the errors of serializers.
        """
        appender = self._running_appender()
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if headers is not None and not isinstance(headers, list):
            headers = list(headers)  # It may be an iterator.
        transaction = self._session.transactions
        future = appender.append(topic, value, key, partition, timestamp_ms, headers)
        if future is None:
            future = self._send_waiting("send", topic, value, key, partition, timestamp_ms, headers, transaction)
        return SentRecord(self, future)

    def _send_waiting(self, method: str, *arguments: Any) -> RecordFuture:
        """Call a method of the dispatcher in the producer's thread, where it may wait."""
        context = copy_context()  # It has the current span of this thread.
        errors: list[Exception] = []

        async def send() -> RecordFuture:
            sending = getattr(self._twin._dispatcher, method)(*arguments)
            try:
                future: RecordFuture = await asyncio.get_running_loop().create_task(sending, context=context)
            except Exception as error:
                errors.append(error)
                raise
            return future

        try:
            return self._call(send)
        except IllegalStateError:
            raise
        except BaseException as interruption:
            if not errors:  # A signal handler has raised it: the record may still be added, behind later ones.
                self._twin._dispatcher.fail_interrupted(method, interruption)
            raise

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch for `send_batch`. Its `append(timestamp=, key=, value=)` returns None when it is full."""
        return self._running_dispatcher().create_batch(self._key_serializer, self._value_serializer)

    def send_batch(self, batch: BatchLike, topic: str, *, partition: int) -> SentRecord:
        """Add a batch to the transaction; return a future of the metadata of its first record.

        `batch`: the result of `create_batch`, or the bytes of one record batch v2. A copy is sent. Raises ValueError for
        anything else, and the errors of `send`.
        """
        records = read_batch(batch)
        transaction = self._session.transactions
        future = self._running_appender().append_batch(records, topic, partition)
        if future is None:
            future = self._send_waiting("send_batch", records, topic, partition, transaction)
        return SentRecord(self, future)

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """Add a record to the transaction, wait until it is written, and return its RecordMetadata.

        Raises ProduceFailedError, and the errors of `send`.
        """
        return self.send(topic, value, key, partition, timestamp_ms, headers).result()

    def flush(self) -> None:
        """Wait until all records are written. Raises TransactionAbortableError, FatalError, OperationTimedOutError."""
        self._call(self._twin.flush)

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic.

        Raises OperationTimedOutError, AuthorizationError, ProducerError; ValueError, TypeError for an invalid name.
        """
        return self._call(lambda: self._twin.partitions_for(topic))

    def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group as part of the transaction (KIP-447): each is that of the next record to read.

        `group_metadata`: the result of `TransactionalConsumer.group_metadata`, or a group id alone, without fencing. Raises
        TransactionAbortableError, FatalError; ValueError, TypeError for invalid arguments.
        """
        self._call(lambda: self._twin.send_offsets_to_transaction(offsets, group_metadata))

    # --- calls in the producer's thread

    def _wait_for(self, record: RecordFuture, timeout_s: float | None) -> None:
        """Wait for a SentRecord: until the record is written or has failed. Raises TimeoutError."""

        async def wait() -> None:
            with contextlib.suppress(ProduceFailedError):
                await record

        self._call(wait, timeout_s)

    def _call_soon(self, callback: Callable[..., object]) -> None:
        """Schedule a callback of a SentRecord."""
        thread = self._running()
        thread.check()
        thread.loop.call_soon_threadsafe(callback)

    def _running(self) -> LoopThread:
        if self._thread is None or self._twin.state is State.CLOSED:
            raise IllegalStateError(f"{self._name} is not started, or closed")
        if self._appender is not None:
            self._appender.check_not_interrupted(threading.get_ident())
        return self._thread

    def _running_appender(self) -> RecordAppender:
        if self._appender is None:
            raise IllegalStateError(f"{self._name} is not started, or closed")
        return self._appender

    def _running_dispatcher(self) -> Dispatcher:
        self._running()
        return self._twin._dispatcher

    def _call(self, work: Callable[[], Coroutine[Any, Any, Result]], timeout_s: float | None = None) -> Result:
        """Run a coroutine in the producer's thread."""
        return self._running().call(work, timeout_s)

    def _end(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]], argument: object = None) -> Result:
        """Run a call that ends or prepares the transaction; meanwhile, `send` raises IllegalStateError."""
        self._running().check()  # First: in a forked process the lock may be held for ever.
        appender = self._running_appender()
        is_mine = False
        try:
            with appender.lock:
                if appender.ending_call is not None:
                    raise IllegalStateError(f"{name}(): {appender.ending_call}() of {self._name} has not ended")
                is_mine = True  # First: Ctrl-C may come between any two steps.
                appender.ending_call = name
            return self._deliver(name, work, argument)
        finally:
            if is_mine:
                appender.ending_call = None

    def _deliver(self, name: str, work: Callable[[], Coroutine[Any, Any, Result]], argument: object = None) -> Result:
        """Run a call of which the caller has to know the outcome, even if a signal interrupts it and its thread repeats it."""
        caller = threading.current_thread()  # Another thread must not get the outcome of this one's call.

        def key() -> tuple[object, ...]:
            return name, argument, caller, self._session.transactions  # A later transaction has calls of its own.

        return self._delivery.call(self._running(), key, work, (OperationTimedOutError, IllegalStateError))
