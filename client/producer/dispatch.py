"""Assignment of an application's records to batches of partitions: partitioner, size limits, topic metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any, Final, SupportsIndex

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.producer.message_accumulator import BatchBuilder

from stuntbroker.client.connections.connections import Connections
from stuntbroker.client.producer.arguments import check_content, check_topic, timestamp_of
from stuntbroker.client.producer.batches import Content, EncodedRecords, Headers, RecordFuture, failed_record
from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.options import Partitioner, SendingOptions, Serializer
from stuntbroker.client.producer.partitioning import StickyPartitioner
from stuntbroker.client.producer.produce_requests import BATCH_OVERHEAD
from stuntbroker.client.producer.sender import Sender
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import Call, State
from stuntbroker.client.telemetry import ProducerTelemetry
from stuntbroker.client.transactional_errors import (
    AuthorizationError,
    FailureType,
    FatalError,
    IllegalStateError,
    OperationTimedOutError,
    ProduceFailedError,
    ProducerError,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import TopicNameError

IN_TRANSACTION: Final = State.IN_TRANSACTION
"""Looked up once: access to a member of an enumeration takes longer than to a constant."""
NO_PARTITION: Final = -1


class Dispatcher:
    """Chooses the partition of each record, and passes the record to the sender."""

    def __init__(
        self,
        session: Session,
        calls: Calls,
        connections: Connections,
        sender: Sender,
        options: SendingOptions,
        *,
        partitioner: Partitioner | None,
        telemetry: ProducerTelemetry | None,
    ) -> None:
        self._session = session
        self._calls = calls
        self._connections = connections
        self._sender = sender
        self._partitioner = partitioner
        self._sticky = StickyPartitioner(sender.has_open_batch)
        self._max_batch_size = options.max_batch_size
        self._max_request_size = options.max_request_size
        self._codec = options.codec
        self._telemetry = telemetry
        is_traced = telemetry is not None and telemetry.tracer is not None
        self._calls_application = is_traced or partitioner is not None
        self.begins_spans_in_caller = is_traced and partitioner is None
        """Whether threads other than that of the event loop send by `send_with_callbacks`, because there is a tracer.

        A custom partitioner is called by the thread of the event loop only.
        """

    async def send(
        self,
        topic: str,
        value: Content,
        key: Content,
        partition: SupportsIndex | None,
        timestamp_ms: Any,
        headers: Headers | None,
        transaction: int | None = None,
    ) -> RecordFuture:
        """Add a serialized record; wait for topic metadata and buffer space.

        `transaction`: that of the record, as counted by `Session.transactions`; None: the current one. Raises
        IllegalStateError if it has ended, because the record must not become part of the next one.
        """
        if transaction is None:
            transaction = self._session.transactions
        partition = _as_int(partition)
        while True:
            self._check_current(transaction)
            future = self.send_with_callbacks(topic, value, key, partition, timestamp_ms, headers)
            if future is not None:
                return future
            refused = self._refused_topic(topic, partition)
            if refused is None:
                known = self._ready_partitions(topic)
                if known and (partition is None or partition in known):
                    refused = self._refused_size(topic, partition, value, key, headers)
            if refused is not None:
                return refused
            await self._wait(topic, partition, transaction)

    def send_nowait(
        self,
        topic: str,
        value: Content,
        key: Content,
        partition: SupportsIndex | None,
        timestamp_ms: Any,
        headers: Headers | None,
    ) -> RecordFuture | None:
        """Add a serialized record; return None, without adding it, if only `send` or `send_with_callbacks` can do what it needs.

        Raises TypeError for a key, value or header that cannot be sent, and the error of a state that does not allow it.
        Threads other than that of the event loop have to hold the sender's lock.
        """
        if self._calls_application:
            return None
        try:
            target = self._target(topic, value, key, partition, headers)
            if target < 0:
                return None
            return self._add(topic, target, timestamp_ms, key, value, headers or [])
        except BaseException as fault:
            self._explain(fault, value, key, headers)
            raise

    def send_with_callbacks(
        self,
        topic: str,
        value: Content,
        key: Content,
        partition: SupportsIndex | None,
        timestamp_ms: Any,
        headers: Headers | None,
        thread_id: int = 0,
    ) -> RecordFuture | None:
        """Do as `send_nowait`, and call back the application: its partitioner and its tracer.

        The caller must not hold the lock, because they may wait for another thread that wants it. `thread_id`: id of the calling
        thread, 0 for that of the event loop.
        """
        sender, telemetry = self._sender, self._telemetry
        if not self._calls_application:
            with sender.guard:
                return self.send_nowait(topic, value, key, partition, timestamp_ms, headers)
        span: Any = None
        try:
            if self._partitioner is not None:
                target = self._target(topic, value, key, partition, headers)
            else:
                with sender.guard:
                    sender.owner = thread_id
                    try:
                        target = self._target(topic, value, key, partition, headers)
                    finally:
                        sender.owner = 0
            if target < 0:
                return None
            headers = headers or []
            if telemetry is not None and telemetry.tracer is not None:
                leader = self._connections.leader_address(topic, target)
                span, headers = telemetry.begin_record(topic, target, headers, value is None, leader)
            with sender.guard:
                sender.owner = thread_id
                try:
                    self._check_state()
                    future = self._add(topic, target, timestamp_ms, key, value, headers)
                    if telemetry is not None and span is not None:
                        future.add_done_callback(partial(telemetry.end_record, span))
                finally:
                    sender.owner = 0
        except BaseException as fault:
            if telemetry is not None and span is not None:
                telemetry.end_unsent(span, fault)
            self._explain(fault, value, key, headers)
            raise
        return future

    def _target(
        self, topic: str, value: Content, key: Content, partition: SupportsIndex | None, headers: Headers | None
    ) -> int:
        """Return the partition of a record, -1 if `send` has to wait or to refuse it."""
        partitions = self._ready_partitions(topic)
        partition = _as_int(partition)
        if not partitions or (partition is not None and partition not in partitions):
            return NO_PARTITION
        if _size_of(value, key, headers) > self._max_request_size:
            return NO_PARTITION
        return self._choose(topic, key, partitions) if partition is None else partition

    def _add(
        self, topic: str, partition: int, timestamp_ms: Any, key: Content, value: Content, headers: Headers
    ) -> RecordFuture:
        time_ms = None if timestamp_ms is None else timestamp_of(timestamp_ms)
        return self._sender.append(topic, partition, time_ms, key, value, headers)

    def _explain(self, fault: BaseException, value: Content, key: Content, headers: Headers | None) -> None:
        """Fail the transaction if an exception has interrupted a change; raise a clearer error for a record that is refused."""
        if self._sender.is_changing:
            self.fail_interrupted("send", fault)
        elif isinstance(fault, TypeError | ValueError | BufferError):
            check_content(value, key, headers)

    def create_batch(self, key_serializer: Serializer | None, value_serializer: Serializer | None) -> BatchBuilder:
        """Return an empty batch with the producer's compression and `max_batch_size`."""
        return BatchBuilder(
            self._max_batch_size,
            self._codec,
            is_transactional=1,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
        )

    async def send_batch(
        self, batch: EncodedRecords, topic: str, partition: int, transaction: int | None = None
    ) -> RecordFuture:
        """Add an encoded batch; wait for topic metadata and buffer space. Raises ValueError, and as `send`."""
        if transaction is None:
            transaction = self._session.transactions
        while True:
            self._check_current(transaction)
            with self._sender.guard:
                future = self.send_batch_nowait(batch, topic, partition)
            if future is not None:
                return future
            refused = self._refused_topic(topic, partition)
            if refused is not None:
                return refused
            await self._wait(topic, partition, transaction)

    def send_batch_nowait(self, batch: EncodedRecords, topic: str, partition: int) -> RecordFuture | None:
        """Add an encoded batch; return None, without adding it, if `send_batch` would have to wait."""
        partition = index(partition)
        if partition not in self._ready_partitions(topic):
            return None
        try:
            return self._sender.append_batch(topic, partition, batch)
        except BaseException as fault:
            if self._sender.is_changing:
                self.fail_interrupted("send_batch", fault)
            raise

    def _ready_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic; none if `send` has to wait. Raises the error of a state that does not allow it."""
        self._check_state()
        return () if self._sender.is_full else self._connections.partitions.of(topic)

    def _check_state(self) -> None:
        """Raise the error of a state that does not allow to send."""
        if self._session.state is not IN_TRANSACTION or self._calls.pending is not None:
            self._calls.check(Call.SEND)

    def _check_current(self, transaction: int) -> None:
        if self._session.transactions != transaction:
            raise IllegalStateError(f"send(): the transaction of {self._session.transactional_id!r} ended meanwhile")

    async def _wait(self, topic: str, partition: int | None, transaction: int) -> None:
        """Wait for buffer space and for the metadata of a topic. A time-out or error makes the transaction abortable.

        Raises ValueError for a partition that refreshed metadata does not have either, and IllegalStateError if the transaction
        has ended meanwhile.
        """
        try:
            await self._calls.within("send", self._ready(topic, partition))
        except OperationTimedOutError as fault:
            self._check_current(transaction)
            if self._connections.partitions.of(topic):
                self.fail(fault)
                return
            error = OperationTimedOutError(f"{fault.args[0]}: topic {topic!r} is not known")
            error.__cause__ = fault.__cause__
            self.fail(error)
        except FatalError as fault:
            self._check_current(transaction)
            self._check_state()
            self._session.fail_fatal(fault)
            self._sender.drop()
        except KafkaError as fault:
            self._check_current(transaction)
            self.fail(no_metadata(topic, fault))

    async def pause(self) -> None:
        """Let other tasks run between two records. Raises IllegalStateError if the transaction ends meanwhile."""
        transaction = self._session.transactions
        await asyncio.sleep(0)
        self._check_current(transaction)

    async def partitions_for(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic. Raises as the producer's method of this name."""
        if partitions := self._connections.partitions.of(topic):
            return partitions
        check_topic(topic)
        try:
            return await self._calls.within("partitions_for", self._connections.wait_for_topic(topic))
        except ProducerError:
            raise
        except TopicAuthorizationFailedError as fault:
            raise AuthorizationError(f"no metadata of topic {topic!r}: {fault}", fault.errno) from fault
        except KafkaError as fault:
            raise no_metadata(topic, fault) from fault

    async def _ready(self, topic: str, partition: int | None) -> None:
        """Wait until a record for a partition can be added."""
        partitions = self._connections.partitions.of(topic) or await self._connections.wait_for_topic(topic)
        if partition is not None and partition not in partitions:
            await self._connections.read_metadata()  # Partitions may have been added.
            partitions = self._connections.partitions.of(topic)
            if partition not in partitions:
                raise ValueError(f"topic {topic!r} has no partition {partition}: it has {len(partitions)}")
        await self._sender.wait_for_room()

    def fail_interrupted(self, method: str, interruption: BaseException) -> None:
        """Make the transaction abortable: a signal handler has raised an exception, and the record may be added or not.

        Any thread may call this.
        """
        self._sender.is_changing = False
        cause = ProducerError(f"{method}() was interrupted by {type(interruption).__name__}")
        cause.__cause__ = interruption
        self._sender.call_soon(self.fail, cause, True)

    def fail(self, cause: ProducerError, bump: bool = False) -> None:
        """Make the transaction abortable, because one of its records was not taken.

        `bump`: a sequence number may be used already, so that the next transaction needs a new epoch.
        """
        self._session.fail_unless_committing(cause, bump)
        self._sender.drop()

    def _refused_topic(self, topic: str, partition: int | None) -> RecordFuture | None:
        """Return a failed record for an invalid topic name, None for a valid one. Raises TypeError."""
        try:
            check_topic(topic)
        except TopicNameError as fault:
            return self._rejected(topic, partition, str(fault), ErrorCode.INVALID_TOPIC_EXCEPTION)
        return None

    def _refused_size(
        self, topic: str, partition: int | None, value: Content, key: Content, headers: Headers | None
    ) -> RecordFuture | None:
        """Return a failed record for one that is too large for a request, else None."""
        size = _size_of(value, key, headers)
        if size <= self._max_request_size:
            return None
        text = f"a record of {size} bytes for topic {topic!r} is larger than max_request_size, {self._max_request_size}"
        return self._rejected(topic, partition, text, ErrorCode.MESSAGE_TOO_LARGE, value is None)

    def _rejected(
        self, topic: str, partition: int | None, text: str, code: ErrorCode, is_tombstone: bool = False
    ) -> RecordFuture:
        """Fail a record that can never be written, and its transaction, as Apache Kafka's producer does; return its future."""
        cause = ProducerError(text, code)
        error = ProduceFailedError(text, FailureType.MESSAGE_REJECTED, code)
        error.__cause__ = cause
        self.fail(cause)
        future = failed_record(topic, partition or 0, error)
        if self._telemetry is not None:
            self._telemetry.record_rejected(topic, partition or 0, error, is_tombstone)
        return future

    def _choose(self, topic: str, key: Any, partitions: Sequence[int]) -> int:
        available = self._connections.available_partitions
        if self._partitioner is not None:
            partition = self._partitioner(key, list(partitions), list(available(topic)))
            if partition not in partitions:
                raise ValueError(
                    f"the partitioner chose {partition!r}: topic {topic!r} has {len(partitions)} partitions"
                )
            return index(partition)
        return self._sticky.choose(topic, key, partitions, available)


def no_metadata(topic: str, fault: KafkaError) -> ProducerError:
    """Return the error for a topic whose metadata a broker refuses."""
    error = ProducerError(f"no metadata of topic {topic!r}: {fault}", getattr(fault, "errno", None))
    error.__cause__ = fault
    return error


def _size_of(value: Content, key: Content, headers: Headers | None) -> int:
    """Return an upper bound of the bytes that a record alone takes in a request."""
    size = len(key or b"") + len(value or b"") + BATCH_OVERHEAD
    if headers:
        size += sum(len(name) + len(content or b"") for name, content in headers)
    return size


def _as_int(partition: SupportsIndex | None) -> int | None:
    """Return a partition of any integer type, such as NumPy's, as an int. Raises TypeError for a float such as 1.0."""
    return partition if partition is None or isinstance(partition, int) else index(partition)
