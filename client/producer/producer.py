"""`TransactionalProducer`: exactly-once writes for asyncio, with recovery from errors without a new producer if possible."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from aiokafka.errors import KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder

from stuntbroker.client.connections import options as connection_options
from stuntbroker.client.connections.connections import Connections, SharedConnections, check_shared
from stuntbroker.client.logger import log
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer import options
from stuntbroker.client.producer.arguments import Offsets, check_names, group_of, identity_of, offsets_of
from stuntbroker.client.producer.batches import BatchLike, Headers, RecordFuture, RecordMetadata, read_batch
from stuntbroker.client.producer.blocks import TransactionBlock
from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.coordination import Coordination, GroupMetadata
from stuntbroker.client.producer.dispatch import Dispatcher
from stuntbroker.client.producer.sender import Sender
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State
from stuntbroker.client.producer.transactions import Transactions
from stuntbroker.client.security import Security
from stuntbroker.client.telemetry import OnMeasurement, ProducerTelemetry
from stuntbroker.client.transactional_errors import IllegalStateError, OperationTimedOutError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_numbers = itertools.count(1)


class TransactionalProducer:
    """Writes records to Kafka in transactions.

        async with TransactionalProducer(bootstrap_servers="localhost:9092", transactional_id="orders-1") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("orders", b"a record")

    Options have the same names and units as those of AIOKafkaProducer, times in milliseconds and sizes in bytes:

    - `bootstrap_servers`: "host:port" of one or more brokers, with commas or as a list.
    - `transaction_timeout_ms`: how long a transaction may stay open before its coordinator aborts it; 60,000 by default.
    - `key_serializer`, `value_serializer`: functions that return the bytes of a key or value.
    - `compression_type`: None, "gzip", "snappy", "lz4" or "zstd".
    - `max_batch_size`: size of a batch, before compression, to which no record is added any more.
    - `max_request_size`: maximum size of a record, and of the batches of one request.
    - `linger_ms`: how long a batch waits for more records.
    - `partitioner`: function of a key, all partitions, and those with a leader; the default is that of Apache Kafka's clients.
    - `request_timeout_ms`: how long a response may take before the connection is closed and the request sent again.
    - `retry_backoff_ms`: how long to wait before a request is sent again.
    - `metadata_max_age_ms`, `connections_max_idle_ms`: when metadata is read again, and an unused connection closed.

    Additional options:

    - `enable_2pc`: transactions take part in two-phase commit (KIP-939): they do not time out, and `prepare_transaction`
      can be called. Excludes `transaction_timeout_ms`.
    - `max_block_ms`: how long a call may take before it raises OperationTimedOutError.
    - `delivery_timeout_ms`: how long a record may remain unacknowledged before its transaction fails.
    - `buffer_memory`: bytes of unacknowledged records that the producer may hold; `send` waits while there are more.
    - `connections`: `Connections` that several producers of one event loop share; `client_id` then only names measurements.
    - `tracer`: an OpenTelemetry tracer, for a span of each transaction and each record. Expensive for small records.
    - `on_measurement`: a function that is called with a `Measurement` of each batch, commit and abort. Keep it short.

    A producer belongs to one event loop: in other threads, and in a forked process, its methods raise IllegalStateError.
    Errors are in `stuntbroker.client`.
    """

    _starting: Connections | None = None
    """Connections that `start` opens, until they are open."""
    # Set by `start`.
    _connections: Connections
    _sender: Sender
    _dispatcher: Dispatcher
    _coordination: Coordination
    _transactions: Transactions

    def __init__(
        self,
        *,
        bootstrap_servers: str | list[str] = connection_options.BOOTSTRAP_SERVERS,
        transactional_id: str,
        transaction_timeout_ms: int | None = None,
        enable_2pc: bool = False,
        client_id: str | None = None,
        key_serializer: options.Serializer | None = None,
        value_serializer: options.Serializer | None = None,
        acks: Literal["all", -1] = "all",
        enable_idempotence: Literal[True] = True,
        compression_type: str | None = None,
        max_batch_size: int = 16384,
        max_request_size: int = 1048576,
        linger_ms: int = 0,
        partitioner: options.Partitioner | None = None,
        request_timeout_ms: int = 40_000,
        retry_backoff_ms: int = 100,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        buffer_memory: int = 32 << 20,
        metadata_max_age_ms: int = connection_options.METADATA_MAX_AGE_MS,
        connections_max_idle_ms: int | None = connection_options.CONNECTIONS_MAX_IDLE_MS,
        connections: SharedConnections | None = None,
        tracer: Tracer | None = None,
        on_measurement: OnMeasurement | None = None,
        **security: Unpack[Security],
    ) -> None:
        """Create a producer, which `start` connects. Raises ValueError, TypeError for invalid or conflicting options.

        `security`: security_protocol, ssl_context and sasl_* as of AIOKafkaProducer. A token must come within request_timeout_ms.
        """
        check_names(transactional_id, client_id)
        connection_options.check_bootstrap(bootstrap_servers)
        options.check_functions(key_serializer, value_serializer, partitioner, on_measurement, tracer)
        connection_options.check_at_least(1, max_block_ms=max_block_ms)
        options.check_fixed(acks, enable_idempotence)
        times: dict[str, Any] = {
            "metadata_max_age_ms": metadata_max_age_ms,
            "connections_max_idle_ms": connections_max_idle_ms,
        }
        connection_options.check_connecting(security, **times)
        self._timeout_ms = options.timeout_ms_of(transaction_timeout_ms, enable_2pc)
        self._is_two_phase = enable_2pc
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._max_block_s = max_block_ms / 1000
        self._session = Session(transactional_id)
        self._calls = Calls(self._session, max_block_ms)
        client_id = client_id or f"stuntbroker-producer-{next(_numbers)}"
        self._telemetry: ProducerTelemetry | None = None
        if tracer is not None or on_measurement is not None:
            self._telemetry = ProducerTelemetry(tracer, on_measurement, client_id, transactional_id)
            self._session.on_move = self._telemetry.on_transition
        self._sending_options = options.SendingOptions(
            codec=options.codec_number(compression_type),
            max_batch_size=max_batch_size,
            max_request_size=max_request_size,
            linger_ms=linger_ms,
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            buffer_memory=buffer_memory,
        )
        self._connection_options: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": client_id,
            "request_timeout_ms": request_timeout_ms,
            "retry_backoff_ms": retry_backoff_ms,
            **times,
            **security,
        }
        self._partitioner = partitioner
        self._shared = check_shared(connections, (bootstrap_servers, *times.values()), security)
        self._is_started = False
        self._stopping: asyncio.Task[None] | None = None
        self._add_partitions_task: asyncio.Task[None] | None = None

    # --- start and stop

    async def start(self) -> None:
        """Connect to the cluster.

        Raises AuthenticationError, or aiokafka's KafkaConnectionError if none of the bootstrap servers answers.
        """
        if self._is_started or self._session.state is State.CLOSED:
            raise IllegalStateError(f"producer {self.transactional_id!r} was started before")
        self._is_started = True
        try:
            await self._start()
        except BaseException:
            self._is_started = False
            raise

    async def _start(self) -> None:
        connections = self._shared
        if connections is not None and not connections.is_open:
            raise IllegalStateError(f"the connections of producer {self.transactional_id!r} are not started, or closed")
        if connections is None:
            connections = self._starting = Connections(**self._connection_options)
            try:
                await connections.start()
            finally:
                self._starting = None
        self._connections = connections
        self._sender = Sender(self._session, connections, self._sending_options, self._telemetry, self._calls)
        self._coordination = Coordination(self._session, connections, self._sending_options.retry_backoff_ms)
        self._dispatcher = Dispatcher(
            self._session,
            self._calls,
            connections,
            self._sender,
            self._sending_options,
            partitioner=self._partitioner,
            telemetry=self._telemetry,
        )
        self._transactions = Transactions(
            self._session, self._calls, self._sender, self._coordination, self._timeout_ms, self._is_two_phase
        )
        self._add_partitions_task = asyncio.create_task(self._transactions.add_partitions())
        self._calls.open()

    async def stop(self, *, leave_open: bool = False) -> None:
        """Abort the open transaction, unless it is prepared or was joined, and close all connections.

        Waits up to `max_block_ms` for that abort, or for a commit or abort that has not ended yet.
        `leave_open`: do not abort; the transaction is left to its time-out, as if the process had died. May be called twice.
        Shared `connections` stay open.
        """
        if self._stopping is None:
            if not self._calls.is_open:
                if self.state is not State.CLOSED:
                    self._session.move(State.CLOSED)
                if self._starting is not None:
                    await self._starting.stop()
                return
            self._calls.check_loop("stop")
            self._stopping = asyncio.create_task(self._stop(leave_open))
        await asyncio.shield(self._stopping)  # It continues if this wait is cancelled.

    async def _stop(self, leave_open: bool) -> None:
        try:
            if not leave_open:
                await self._end_for_stop()
        finally:
            await self._close()

    async def _end_for_stop(self) -> None:
        """Wait for a pending commit or abort, or abort the open transaction."""
        try:
            async with asyncio.timeout(self._max_block_s):
                if self._calls.is_prepared_state_lost:
                    await self.abort_transaction()
                if self._calls.pending not in (None, Call.INIT_TRANSACTIONS, Call.JOIN_TRANSACTION):
                    await self._calls.wait()
                if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR) and not self._session.is_joined:
                    await self.abort_transaction()
        except (KafkaError, TimeoutError, IllegalStateError) as fault:
            # IllegalStateError: shared connections were closed before the producers that use them.
            reason = str(fault) or f"it has not ended within {self._max_block_s:g} s"
            log.warning("%r was closed with an open transaction: %s", self.transactional_id, reason)

    async def _close(self) -> None:
        if self._session.state is not State.CLOSED:
            self._session.move(State.CLOSED)
        await self._calls.close()
        await self._sender.close()
        if self._add_partitions_task is not None:
            self._add_partitions_task.cancel()
            await asyncio.wait({self._add_partitions_task})
        if self._shared is None:
            await self._connections.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def transactional_id(self) -> str:
        """The transactional id."""
        return self._session.transactional_id

    @property
    def state(self) -> State:
        """State of the producer."""
        return self._session.state

    @property
    def identity(self) -> PreparedTxnState:
        """Producer id and epoch that requests carry; -1 and -1 before init_transactions."""
        return self._session.identity

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that abort_transaction would abort now."""
        return OUTCOMES[self.state, Call.ABORT_TRANSACTION] is Outcome.RUN and self._calls.pending is None

    # --- transactions

    async def init_transactions(self, keep_prepared_txn: bool = False) -> None:
        """Initialise the transactional id and fence every other producer that uses it. Call this once, before other calls.

        An open transaction of the id is aborted. With `keep_prepared_txn` it stays open, and `complete_transaction` has to
        follow (KIP-939). Raises FatalError, OperationTimedOutError; TransactionAbortableError, after which it may be repeated.
        """
        await self._calls.run(
            Call.INIT_TRANSACTIONS,
            State.INITIALIZING,
            lambda: self._transactions.init(keep_prepared_txn),
            keep_prepared_txn,
        )

    async def join_transaction(self, identity: PreparedTxnState | str) -> None:
        """Join a transaction that another producer with this transactional id has shared.

        `identity`: the result of `share_transaction`, or its text. Call `flush` before another producer commits; `stop`
        leaves the transaction open. Raises FatalError, OperationTimedOutError.
        """
        identity = identity_of(identity)
        await self._calls.run(
            Call.JOIN_TRANSACTION, State.INITIALIZING, lambda: self._transactions.join(identity), identity
        )

    async def begin_transaction(self) -> None:
        """Begin a transaction. No request is sent before its first record or offset."""
        self._calls.check(Call.BEGIN_TRANSACTION)
        self._session.begin_transaction()
        TransactionBlock.note_begin(self._session)

    def share_transaction(self) -> PreparedTxnState:
        """Let other producers join the transaction; return the identity to pass to their `join_transaction`.

        Producers in any number of processes can share the transaction. Each has to write to partitions of its own: Kafka
        takes the records of a second writer for retries of the first, and does not always report that. After all have
        flushed, one of them commits or aborts. A transaction without records or offsets can only be aborted.
        """
        self._calls.check(Call.SHARE_TRANSACTION)
        self._session.share()
        return self._session.identity

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, commit it at the end of the block, and abort it if the block or the commit raises.

        The exception propagates, unless the abort fails too. After CommitFailedError and any other TransactionAbortableError,
        the producer is ready for the next transaction. If the commit raises OperationTimedOutError, or the task is cancelled
        during the commit, the commit continues in the background: call `commit_transaction` again.

        A transaction that the block has prepared is never aborted, because your database may have committed, unless
        `prepare_transaction` was cancelled and has returned no state. A transaction that was ended within the block,
        or in a task that was created there, is left as it is. Raises IllegalStateError if it was aborted elsewhere, by `stop` for
        example: its records are lost.
        """
        block = TransactionBlock(self._session, self._calls)
        with block.entered():
            await self.begin_transaction()
            try:
                yield self
                if block.has_to_be_committed():
                    await self.commit_transaction()
            except BaseException:
                if block.has_to_be_aborted:
                    await self.abort_transaction()
                raise

    async def commit_transaction(self) -> None:
        """Wait until all records are written, and commit.

        Raises CommitFailedError if nothing is committed: abort, then continue. Raises OperationTimedOutError if the outcome is
        not known yet: call it again. Any other error is fatal (KIP-691).
        """
        await self._calls.run(
            Call.COMMIT_TRANSACTION, State.COMMITTING_TRANSACTION, lambda: self._transactions.commit()
        )

    async def abort_transaction(self) -> None:
        """Abort the transaction: none of its records will be read by read_committed consumers.

        Records that are not written yet fail. Raises FatalError, OperationTimedOutError.
        """
        self._calls.drop_undelivered(Call.PREPARE_TRANSACTION)
        outcome = self._session.outcome
        await self._calls.run(Call.ABORT_TRANSACTION, State.ABORTING_TRANSACTION, lambda: self._transactions.abort())
        TransactionBlock.note_end(outcome)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Wait until all records are written, and prepare the transaction: then it can only be completed (KIP-939).

        Store the result as text (`str`) in your database, in the same transaction as your decision. After a cancellation, call
        it again for the result, or abort. Raises TransactionAbortableError, FatalError; IllegalStateError without `enable_2pc`.
        """
        if not self._is_two_phase:
            raise IllegalStateError("prepare_transaction() needs enable_2pc=True")
        call = Call.PREPARE_TRANSACTION
        try:
            await self._calls.run_alone(call, lambda: self._transactions.prepare())
        except OperationTimedOutError as fault:
            self._session.fail_abortable(fault, bump=True)
            self._sender.drop()
            self._calls.check(call)
        return self._session.identity

    async def complete_transaction(self, state: PreparedTxnState | str) -> bool:
        """Commit the prepared transaction if `state` identifies it, else abort it (KIP-939). Return whether it was committed.

        `state`: the result of prepare_transaction, or its text; after init_transactions(keep_prepared_txn=True), the text that
        was stored. Returns False if there is no transaction. Raises ValueError for an invalid text. A rejected commit is fatal
        and aborts nothing: a new producer with `keep_prepared_txn` can commit the transaction.
        """
        state = identity_of(state)
        session, call = self._session, Call.COMPLETE_TRANSACTION
        if self._calls.pending is not call:
            self._calls.check(call)
            if session.state is State.READY:
                return False
        is_commit = session.prepared == state
        target = State.COMMITTING_TRANSACTION if is_commit else State.ABORTING_TRANSACTION
        outcome = session.outcome
        result: bool = await self._calls.run(call, target, lambda: self._transactions.complete(is_commit), state)
        TransactionBlock.note_end(outcome)
        return result

    # --- records and offsets

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Headers | None = None,
    ) -> RecordFuture:
        """Add a record to the transaction; return a future of its RecordMetadata. Do not await each future.

        Waits for metadata and for room in the buffer. Raises TransactionAbortableError, FatalError, IllegalStateError,
        errors of serializers, TypeError for wrong types; ValueError for an unknown partition and a negative timestamp.
        """
        if get_ident() != self._calls.thread_id:
            self._calls.check_loop("send")
        if self._sender.needs_pause:
            await self._dispatcher.pause()
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        if headers is not None and not isinstance(headers, list):
            headers = list(headers)  # It may be an iterator.
        future = self._dispatcher.send_nowait(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)
        if future is None:
            future = await self._dispatcher.send(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)
        return future

    async def send_and_wait(
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
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch for `send_batch`. Its `append(timestamp=, key=, value=)` returns None when it is full."""
        self._calls.check_open("create_batch")
        return self._dispatcher.create_batch(self._key_serializer, self._value_serializer)

    async def send_batch(self, batch: BatchLike, topic: str, *, partition: int) -> RecordFuture:
        """Add a batch to the transaction; return a future of the RecordMetadata of its first record.

        `batch`: the result of `create_batch`, or the bytes of one record batch v2, of any codec. A copy is sent, with
        producer id, epoch and sequence numbers filled in. A batch that is too large for the broker is not split. Raises
        ValueError, TypeError for anything else, and the errors of `send`.
        """
        self._calls.check_open("send_batch")
        if self._sender.needs_pause:
            await self._dispatcher.pause()
        return await self._dispatcher.send_batch(read_batch(batch), topic, partition)

    async def flush(self) -> None:
        """Wait until all records are written. Raises TransactionAbortableError, FatalError, OperationTimedOutError."""
        self._calls.check(Call.FLUSH)
        await self._calls.within("flush", self._sender.flush())
        self._calls.check(Call.FLUSH)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return a topic's partitions.

        Raises OperationTimedOutError, AuthorizationError, ProducerError; ValueError, TypeError for an invalid name.
        """
        self._calls.check_open("partitions_for")
        return set(await self._dispatcher.partitions_for(topic))

    async def send_offsets_to_transaction(self, offsets: Offsets, group_metadata: GroupMetadata | str) -> None:
        """Commit offsets of a consumer group as part of the transaction (KIP-447): each is that of the next record to read.

        `group_metadata`: the result of `TransactionalConsumer.group_metadata()`, or a group id alone, without fencing.
        Raises TransactionAbortableError, FatalError; ValueError, TypeError for invalid arguments.
        """
        self._calls.check(Call.SEND_OFFSETS)
        if not offsets:
            return
        await self._transactions.send_offsets(group_of(group_metadata), offsets_of(offsets))
