"""Record batches, a queue of batches for each partition, and the futures that `send` returns.

A batch is either built from records by aiokafka's builder, or was encoded by the application.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer.error_table import NO_FACTS, Fact
from stuntbroker.client.transactional_errors import ProduceFailedError, ProducerError
from stuntbroker.protocol.batches.records import HEADER_SIZE, TRANSACTIONAL, add_sequence, read_header, stamp_producer

MAGIC: Final = 2
NO_SEQUENCE: Final = -1
UNKNOWN_OFFSET: Final = -1
"""Offset of a batch that the leader reports as a duplicate."""
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
Content: TypeAlias = bytes | bytearray | memoryview | None
"""Content of a key or a value."""
Headers = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Where a record was written.

    The fields are those of aiokafka: topic, partition, topic_partition, offset (-1: the broker reported a duplicate without
    an offset), timestamp (ms since 1970), timestamp_type (0: CreateTime, 1: LogAppendTime), log_start_offset (or None).
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    """Topic and partition, as aiokafka's TopicPartition."""
    offset: int
    """-1: the broker reported a duplicate, without its offset."""
    timestamp: int
    """Milliseconds since 1970."""
    timestamp_type: int
    """0 (CreateTime): set by the producer; 1 (LogAppendTime): set by the broker.

    1 also if the broker has recognised a duplicate: then `timestamp` is the largest of the batch, as Apache Kafka returns it.
    """
    log_start_offset: int | None
    """First offset of the partition; None if the broker did not return it."""


class _RecordCallback:
    """Callback for the result of a record; equal to any other with the same record and callback."""

    __slots__ = ("_callback", "_record")

    def __init__(self, record: RecordFuture, callback: Callable[[RecordFuture], object]) -> None:
        self._record = record
        self._callback = callback

    def __call__(self, waiter: asyncio.Future[None]) -> None:
        self._callback(self._record)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _RecordCallback) and self._record is other._record and self._callback == other._callback
        )

    def __hash__(self) -> int:
        return hash((id(self._record), self._callback))


class RecordFuture:
    """The result of one `send`. Awaiting it gives RecordMetadata, or raises ProduceFailedError.

    Awaiting is optional: commit_transaction waits for every record, and fails if one of them has failed. Unlike an
    asyncio.Future, it cannot be cancelled, and an error that is never retrieved is not logged.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_resolved:
            yield from self._batch.waiter().__await__()
        return self.result()

    def done(self) -> bool:
        """Return whether the record is written, or has failed."""
        return self._batch.is_resolved

    def cancelled(self) -> bool:
        """Return False: a record cannot be cancelled."""
        return False

    def exception(self) -> ProduceFailedError | None:
        """Return why the record was not written, or None if it was. Raises asyncio.InvalidStateError before it is `done`."""
        if not self._batch.is_resolved:
            raise asyncio.InvalidStateError("the record has no result yet: await the future that send() returned")
        return self._batch.resolved(self._index).error

    def result(self) -> RecordMetadata:
        """Return the record's metadata. Raises ProduceFailedError, or asyncio.InvalidStateError before the record is `done`."""
        error = self.exception()
        if error is not None:
            raise error.with_traceback(None)
        batch = self._batch.resolved(self._index)
        topic, partition = batch.queue.topic, batch.queue.partition
        offset = UNKNOWN_OFFSET if batch.base_offset < 0 else batch.base_offset + self._index - batch.first_index
        by_broker = batch.log_append_time_ms >= 0
        return RecordMetadata(
            topic,
            partition,
            TopicPartition(topic, partition),
            offset,
            batch.log_append_time_ms if by_broker else self._timestamp_ms,
            LOG_APPEND_TIME if by_broker else CREATE_TIME,
            batch.log_start_offset if batch.log_start_offset >= 0 else None,
        )

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(self)` from the event loop when the record is written or has failed."""
        self._batch.waiter().add_done_callback(_RecordCallback(self, callback))

    def remove_done_callback(self, callback: Callable[[RecordFuture], object]) -> int:
        """Remove `callback`. Return how many times it was registered."""
        return self._batch.remove_callback(_RecordCallback(self, callback))


class Batch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "_builder",
        "_parts",
        "_waiters",
        "_whole",
        "base_offset",
        "count",
        "created_s",
        "data",
        "error",
        "first_index",
        "in_flight",
        "is_lingering",
        "is_open",
        "is_resolved",
        "last_fault",
        "log_append_time_ms",
        "log_start_offset",
        "queue",
        "sequence",
        "size",
    )

    def __init__(
        self, queue: PartitionQueue, codec: int, size_max: int, created_s: float, first_index: int = 0
    ) -> None:
        self._start(queue, created_s, first_index)
        self._builder = DefaultRecordBatchBuilder(MAGIC, codec, 1, -1, -1, 0, size_max)

    def _start(self, queue: PartitionQueue, created_s: float, first_index: int = 0) -> None:
        self.queue = queue
        self.created_s = created_s
        """Time of creation, in seconds of the event loop's clock."""
        self.first_index = first_index
        """Index of its first record in the batch that was split; 0 for any other batch."""
        self.count = 0
        self.size = 0
        """Bytes of its records, before compression."""
        self.data: bytearray | None = None
        """The encoded batch, once it is sealed."""
        self.sequence = NO_SEQUENCE
        self.in_flight = False
        self.is_lingering = False
        """Whether it waits for more records, until `linger_ms` is over."""
        self.is_open = True
        """Whether records can still be added."""
        self.is_resolved = False
        self.error: ProduceFailedError | None = None
        self.last_fault: ProducerError | None = None
        """Why it is sent again, if it is."""
        self.base_offset = UNKNOWN_OFFSET
        self.log_append_time_ms = -1
        self.log_start_offset = -1
        self._waiters: list[asyncio.Future[None]] = []
        self._parts: list[Batch] = []
        self._whole: Batch | None = None
        """The batch whose split created this one, if any."""

    @property
    def can_be_split(self) -> bool:
        """Whether its records may be sent in smaller batches."""
        return self.count > 1

    @property
    def facts(self) -> Fact:
        """Facts about the batch on which the meaning of an error code depends."""
        facts = NO_FACTS if self.queue.is_first(self) else Fact.EARLIER_BATCH_OPEN
        return facts if self.can_be_split else facts | Fact.UNSPLITTABLE

    @property
    def is_intact(self) -> bool:
        """Whether its counts are those of its builder: an interruption of `append` may come between both."""
        return bool(self._builder.size() == HEADER_SIZE + self.size)

    def append(self, timestamp_ms: int | None, key: Content, value: Content, headers: Headers) -> RecordFuture | None:
        """Add a record; return its future, None if the batch is full. Raises TypeError for a key or value that is not bytes."""
        appended = self._builder.append(self.count, timestamp_ms, key, value, headers)
        if appended is None:
            return None
        future = RecordFuture(self, self.count, appended.timestamp)
        self.count += 1
        self.size += appended.size
        return future

    def seal(self, owner: PreparedTxnState, sequence: int) -> None:
        """Close the batch with producer id, epoch and first sequence number, which do not change when it is resent."""
        self.is_open = False
        self._builder.set_producer_state(*owner, sequence)
        self.data = self._builder.build()
        self.sequence = sequence  # Last: it says that the batch is sealed.

    def mark_sent(self) -> None:
        """Count the batch as in flight."""
        self.in_flight = True
        self.queue.in_flight += 1
        self.queue.resend = False

    def mark_returned(self) -> None:
        """Count the batch as no longer in flight."""
        if self.in_flight:
            self.in_flight = False
            self.queue.in_flight -= 1

    def waiter(self) -> asyncio.Future[None]:
        """Return a new future that completes, without an error, when the batch is resolved."""
        waiter: asyncio.Future[None] = self.queue.loop.create_future()
        if self.is_resolved:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter

    def remove_callback(self, callback: Callable[[asyncio.Future[None]], object]) -> int:
        """Remove `callback` from all waiters. Return how many times it was registered."""
        return sum(waiter.remove_done_callback(callback) for waiter in self._waiters)

    def resolve(
        self,
        error: ProduceFailedError | None,
        base_offset: int = UNKNOWN_OFFSET,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        """Set the result: the batch was written, or has failed for good. Only the first result counts."""
        if self.is_resolved:
            return
        self.error = error
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self._finish()

    def _finish(self) -> None:
        self.is_resolved = True
        self.data = None
        self._release()
        for waiter in self._waiters:
            if not waiter.done():  # The wait may have been cancelled.
                waiter.set_result(None)
        self._waiters.clear()
        if self._whole is not None and all(part.is_resolved for part in self._whole._parts):
            self._whole._finish()

    def _release(self) -> None:
        """Free the builder."""
        self._builder = None

    def split(self, owner: PreparedTxnState, codec: int) -> list[Batch]:
        """Return two batches with the records of this one, which keep their sequence numbers."""
        assert self.data is not None and self.count > 1
        records = list(MemoryRecords(bytes(self.data)).next_batch())
        half = (len(records) + 1) // 2
        for first in (0, half):
            part = Batch(self.queue, codec, len(self.data) + self.size, self.created_s, self.first_index + first)
            part._whole = self
            for record in records[first : first + half]:
                part.append(record.timestamp, record.key, record.value, record.headers)
            part.seal(owner, add_sequence(self.sequence, first))
            self._parts.append(part)
        return self._parts

    def resolved(self, index: int) -> Batch:
        """Return the batch in which a record was finally sent: this one, or a part of it after a split."""
        for part in reversed(self._parts):
            if index >= part.first_index:
                return part.resolved(index)
        return self


class EncodedBatch(Batch):
    """A batch that the application has encoded: it takes no more records, and is not split."""

    __slots__ = ("_encoded",)

    def __init__(self, queue: PartitionQueue, encoded: bytearray, count: int, created_s: float) -> None:
        self._start(queue, created_s)
        self.is_open = False
        self._encoded = encoded
        self.count = count
        self.size = len(encoded)

    @property
    def can_be_split(self) -> bool:
        """False: the application has chosen its size."""
        return False

    def seal(self, owner: PreparedTxnState, sequence: int) -> None:
        """Write producer id, epoch and first sequence number into the batch."""
        self.sequence = sequence
        stamp_producer(self._encoded, *owner, sequence, TRANSACTIONAL)
        self.data = self._encoded

    def _release(self) -> None:
        self._encoded = bytearray()


def failed_record(topic: str, partition: int, error: ProduceFailedError) -> RecordFuture:
    """Return the future of a record that fails without being sent. Needs a running event loop."""
    batch = Batch(PartitionQueue(topic, partition, asyncio.get_running_loop()), 0, 0, 0.0)
    future = batch.append(0, None, None, [])
    assert future is not None
    batch.resolve(error)
    return future


BatchLike: TypeAlias = BatchBuilder | bytes | bytearray | memoryview
"""Types that an application may pass as a batch."""


class EncodedRecords(NamedTuple):
    """A validated batch: a private copy of its bytes, to be stamped with a producer id and sent."""

    data: bytearray
    count: int  # type: ignore[assignment]  # Records, not `tuple.count`.


def read_batch(batch: BatchLike) -> EncodedRecords:
    """Validate a batch and return a copy of it: the application may send the original again.

    Raises ValueError unless it is exactly one record batch v2, not empty and not a control batch; TypeError unless it is bytes.
    """
    if isinstance(batch, BatchBuilder):
        batch = batch._build()
    if not isinstance(batch, bytes | bytearray | memoryview):
        raise TypeError(f"a batch is the result of create_batch, or bytes, not {type(batch).__name__}")
    data = bytearray(batch)
    if len(data) < HEADER_SIZE:
        raise ValueError(f"{len(data)} bytes are no record batch: its header alone has {HEADER_SIZE}")
    header = read_header(data)
    if header.magic != MAGIC:
        raise ValueError(f"a record batch of magic {header.magic}: it has to be {MAGIC}")
    if header.size != len(data):
        raise ValueError(f"{len(data)} bytes with a record batch of {header.size}: give one whole batch")
    if header.control or header.count < 1:
        raise ValueError("the record batch is empty or a control batch")
    return EncodedRecords(data, header.count)


class PartitionQueue:
    """The batches of one partition that are not resolved, in the order of their sequence numbers."""

    __slots__ = (
        "acknowledged",
        "batches",
        "in_flight",
        "is_backing_off",
        "loop",
        "next_sequence",
        "partition",
        "resend",
        "topic",
    )

    def __init__(self, topic: str, partition: int, loop: asyncio.AbstractEventLoop) -> None:
        self.topic = topic
        self.partition = partition
        self.loop = loop
        """The event loop of the producer."""
        self.batches: deque[Batch] = deque()
        """Oldest first. The last may still be open."""
        self.in_flight = 0
        self.next_sequence = 0
        self.acknowledged = False
        """Whether the leader has acknowledged a batch of this epoch."""
        self.resend = False
        """Whether a batch has to be resent: nothing new is sent until all in-flight batches have responses."""
        self.is_backing_off = False
        """Whether nothing is sent until the back-off of a retry is over."""

    def is_first(self, batch: Batch) -> bool:
        """Return whether no earlier batch of the partition is unresolved."""
        return not self.batches or self.batches[0] is batch

    def open_batch(self) -> Batch | None:
        """Return the batch to which records can be added, or None."""
        if self.batches and self.batches[-1].is_open:
            return self.batches[-1]
        return None

    def next_to_send(self) -> Batch | None:
        """Return the first batch that is not in flight."""
        for batch in self.batches:
            if not batch.in_flight:
                return batch
        return None

    def seal(self, batch: Batch, owner: PreparedTxnState) -> None:
        """Assign sequence numbers to a batch, unless it has them already."""
        if batch.sequence != NO_SEQUENCE:
            return
        batch.seal(owner, self.next_sequence)
        self.next_sequence = add_sequence(self.next_sequence, batch.count)
