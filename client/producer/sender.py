"""Sends batches to the leaders of their partitions, in the order of their sequence numbers, until they are resolved.

No task waits for work: `pump` is called whenever a batch may have become sendable. Up to five batches of a partition are in
flight. Before one of them is resent, all others have to have responses.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from stuntbroker.client.connections.connections import Connections
from stuntbroker.client.connections.options import BACKOFF_MS_MIN
from stuntbroker.client.producer.batches import (
    NO_SEQUENCE,
    Batch,
    Content,
    EncodedBatch,
    EncodedRecords,
    Headers,
    PartitionQueue,
    RecordFuture,
)
from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.delivery_timeout import DeliveryTimeout
from stuntbroker.client.producer.error_table import NO_FACTS, Kind, Request, failure_type, kind_of
from stuntbroker.client.producer.in_flight import InFlight
from stuntbroker.client.producer.options import SendingOptions
from stuntbroker.client.producer.produce_requests import split_by_size
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import State
from stuntbroker.client.telemetry import ProducerTelemetry
from stuntbroker.client.transactional_errors import (
    ApplicationRecoverableError,
    DisconnectedError,
    FailureType,
    FatalError,
    IllegalStateError,
    ProduceFailedError,
    ProducerError,
    ResponseError,
    UnexpectedError,
    produce_failed,
)
from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.messages.produce_response import PartitionProduceResponse
from stuntbroker.protocol.topic_names import TopicPartition

PAUSE_BYTES: Final = 256 << 10
"""Bytes of full batches after which `send` lets other tasks of the event loop run."""
IN_FLIGHT_MAX: Final = 5
"""Maximum batches in flight per partition: a broker remembers as many to detect duplicates (KIP-98)."""
SENDING_STATES: Final = frozenset({State.IN_TRANSACTION, State.COMMITTING_TRANSACTION})


class Sender:
    """Sends the records of one producer, and holds them until they are resolved."""

    def __init__(
        self,
        session: Session,
        connections: Connections,
        options: SendingOptions,
        telemetry: ProducerTelemetry | None,
        calls: Calls,
    ) -> None:
        self.buffered = 0
        """Bytes of records that are not resolved."""
        self._session = session
        self._connections = connections
        self._codec = options.codec
        self._max_batch_size = options.max_batch_size
        self._max_request_size = options.max_request_size
        self._linger_s = options.linger_ms / 1000
        self._retry_backoff_s = max(options.retry_backoff_ms, BACKOFF_MS_MIN) / 1000
        self._buffer_memory = options.buffer_memory
        self._telemetry = telemetry
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.guard: AbstractContextManager[Any] = nullcontext()
        """Held while batches are added, filled, sealed or removed: a lock if other threads add records too."""
        self.owner = 0
        """Id of the thread that holds the lock; 0 also for that of the event loop."""
        self.is_changing = False
        """Whether an exception has ended `append` or `append_batch` in the middle of a change."""
        self.call_soon: Callable[..., object] = self._loop.call_soon
        session.fault_of_records = self._fault_of_records
        self._identity = session.identity
        """Producer id and epoch to which the sequences of the queues belong."""
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        """Queues that have batches."""
        self._in_flight = InFlight(
            session,
            connections,
            options.request_timeout_ms,
            self._handle_response,
            self._handle_failure,
            self._continue,
        )
        self._pump_due = False
        self._full_bytes = 0
        """Bytes of batches that were filled since the last `pump`."""
        self.needs_pause = False
        """Whether these are so many that other tasks should run before more records are added."""
        self._flushing = 0
        self._timeout = DeliveryTimeout(options.delivery_timeout_ms / 1000, self._check_expiry)
        self._waiting_for_room: deque[asyncio.Future[None]] = deque()
        self.add_partitions_needed = asyncio.Event()
        """Set when partitions have to be added to the transaction before their records can be sent."""

    def _fault_of_records(self) -> ProducerError | None:
        """Return why the oldest batches of some partition are sent again, None if no batch is."""
        with self.guard:
            faults = [queue.batches[0].last_fault for queue in self._active.values() if queue.batches]
        return next((fault for fault in faults if fault is not None), None)

    def admit_threads(self) -> threading.Lock:
        """Let other threads than that of the event loop call `append` and `append_batch` while they hold the returned lock."""
        self.guard = lock = threading.Lock()
        self._calls.threads_send = True
        self.call_soon = self._loop.call_soon_threadsafe
        return lock

    # --- records come in

    def append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int | None,
        key: Content,
        value: Content,
        headers: Headers,
    ) -> RecordFuture:
        """Add a record to a batch of its partition. Raises TypeError for a key or value that is not bytes."""
        queue = self._queue_of(topic, partition)
        batch = queue.open_batch()
        if batch is None:
            self._calls.check_loop("send", is_sending=True)
        self.is_changing = True
        if batch is not None:
            size = batch.size
            future = self._fill(batch, timestamp_ms, key, value, headers)
            if future is not None:
                self.buffered += batch.size - size
                self.is_changing = False
                return future
            queue.seal(batch, self._session.identity)
            self._count_full(batch)
            self.pump_soon()
        batch = Batch(queue, self._codec, self._max_batch_size, self._loop.time())
        future = self._fill(batch, timestamp_ms, key, value, headers)
        assert future is not None  # A batch accepts a first record of any size.
        self._queue(batch)
        if self._linger_s and not self._flushing:
            batch.is_lingering = True
            self.call_soon(self._linger, batch)
        else:
            self.pump_soon()
        self.is_changing = False
        return future

    def _fill(
        self, batch: Batch, timestamp_ms: int | None, key: Content, value: Content, headers: Headers
    ) -> RecordFuture | None:
        try:
            return batch.append(timestamp_ms, key, value, headers)
        except BaseException:
            self.is_changing = not batch.is_intact  # It is, if the builder refuses the record.
            raise

    def append_batch(self, topic: str, partition: int, records: EncodedRecords) -> RecordFuture:
        """Queue an encoded batch after the records of its partition; return the future of its first record."""
        queue = self._queue_of(topic, partition)
        opened = queue.open_batch()
        self._calls.check_loop("send_batch", is_sending=True)
        self.is_changing = True
        if opened is not None:
            queue.seal(opened, self._session.identity)
        batch = EncodedBatch(queue, records.data, records.count, self._loop.time())
        queue.seal(batch, self._session.identity)  # Sequence numbers are in the order of the queue.
        self._queue(batch)
        self._count_full(batch)
        self.pump_soon()
        self.is_changing = False
        return RecordFuture(batch, 0, read_header(records.data).base_timestamp)

    def _queue_of(self, topic: str, partition: int) -> PartitionQueue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = PartitionQueue(topic, partition, self._loop)
        return queue

    def _count_full(self, batch: Batch) -> None:
        self._full_bytes += batch.size
        self.needs_pause = self._full_bytes >= PAUSE_BYTES

    def _queue(self, batch: Batch) -> None:
        queue = batch.queue
        # First, because a signal may interrupt a thread at any step: only active batches are dropped.
        self._active[queue.topic, queue.partition] = queue
        queue.batches.append(batch)
        self.buffered += batch.size

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full: new records have to wait until others are resolved."""
        return self.buffered >= self._buffer_memory

    async def wait_for_room(self) -> None:
        """Wait until there is buffer space for records."""
        while self.is_full and self._session.state in SENDING_STATES:
            waiter = self._loop.create_future()
            self._waiting_for_room.append(waiter)
            self.pump_soon()  # Sends lingering batches: their buffer space is needed.
            await waiter

    # --- records go out

    def pump_soon(self) -> None:
        """Schedule `pump` after all callbacks that are ready now, so that records of the same moment share a batch."""
        if not self._pump_due:
            self._pump_due = True
            self.call_soon(self.pump)

    def pump(self) -> None:
        """Send all batches that may be sent now."""
        with self.guard:
            self._pump_due = False
            self._full_bytes = 0
            self.needs_pause = False
            self._send()

    def _send(self) -> None:
        if not self._active:
            return
        self._timeout.watch(self._oldest)
        if self._session.state not in SENDING_STATES:
            return
        while True:
            requests: dict[int, list[Batch]] = {}
            for queue in self._active.values():
                batch = self._sendable(queue)
                if batch is None:
                    continue
                leader = self._connections.leader(queue.topic, queue.partition)
                if leader is None:
                    self._retry_later(queue, refresh=True)
                    continue
                requests.setdefault(leader, []).append(batch)
            if not requests:
                return
            for leader, batches in requests.items():
                for group in split_by_size(batches, self._max_request_size):
                    self._session.has_started = True
                    self._in_flight.send(leader, group)

    def _sendable(self, queue: PartitionQueue) -> Batch | None:
        """Return the next batch of a partition, sealed, or None if none can be sent now."""
        # A leader that may not know a sequence number yet could reject the first batch and take the second.
        may_lack_sequence = not self._session.is_version_2 and not queue.acknowledged
        if queue.in_flight and (queue.resend or queue.in_flight >= IN_FLIGHT_MAX or may_lack_sequence):
            return None
        if queue.is_backing_off:
            return None
        batch = queue.next_to_send()
        if batch is None:
            return None
        if batch.is_lingering and batch.data is None and not self._flushing and not self._waiting_for_room:
            return None
        if not self._session.is_version_2 and (queue.topic, queue.partition) not in self._session.added:
            self.add_partitions_needed.set()
            return None
        queue.seal(batch, self._session.identity)
        return batch

    # --- responses

    def _handle_failure(self, batches: list[Batch], fault: Exception) -> None:
        """Resend batches later if their connection broke, else fail: their request could not be sent, or its response handled."""
        if isinstance(fault, DisconnectedError):
            for batch in batches:
                self._retry(batch, fault, refresh=True)
            return
        error = fault
        if not isinstance(error, FatalError):
            # Shared connections that were closed too early are not a bug of this client.
            kind = ApplicationRecoverableError if isinstance(fault, IllegalStateError) else UnexpectedError
            error = kind(f"a Produce request of {self._session.transactional_id!r} failed here: {fault!r}")
            error.__cause__ = fault
        self._session.fail_fatal(error)
        self.drop()

    def _continue(self) -> None:
        """Send what can be sent after a response, but let the application's tasks add records first."""
        if self._active:
            self.pump_soon()

    def _handle_response(self, batch: Batch, part: PartitionProduceResponse) -> None:
        """Handle the response for a batch according to the error table."""
        queue, code = batch.queue, part.error_code
        facts = self._session.facts | batch.facts if code else NO_FACTS
        kind = kind_of(Request.PRODUCE, code, facts)
        if kind is Kind.SUCCESS:
            queue.acknowledged = True
            # For a duplicate, the leader does not always return the offset.
            offset = part.base_offset if not code else -1
            self._resolve(batch, None, offset, part.log_append_time_ms, part.log_start_offset)
            return
        what = f"Produce to {queue.topic}-{queue.partition}"
        cause = ResponseError(what, code, part.error_message)
        if kind is Kind.SPLIT:
            self._split(batch, cause)
            return
        if kind in (Kind.RETRY, Kind.REFRESH):
            self._retry(batch, cause, refresh=kind is Kind.REFRESH)
            return
        self._session.needs_new_epoch = True  # The leader still expects the sequence numbers of this batch.
        self._session.apply_error_code(Request.PRODUCE, code, what, part.error_message, facts)
        self._resolve(batch, produce_failed(cause, failure_type(code)))
        self.drop()

    def _retry(self, batch: Batch, cause: ProducerError, refresh: bool = False) -> None:
        """Resend a batch later, unless it has expired or its transaction has to be aborted."""
        queue = batch.queue
        if batch.is_resolved or self._fail_with_transaction(batch, cause):
            return
        batch.last_fault = cause
        if self._timeout.is_over(batch):
            self._expire(batch)
        else:
            queue.resend = True
            self._retry_later(queue, refresh)

    def _fail_with_transaction(self, batch: Batch, cause: ProducerError) -> bool:
        """Fail a batch that would be sent again, if its transaction has failed meanwhile; return whether that is so."""
        if self._session.state in SENDING_STATES:
            return False
        self._session.needs_new_epoch = True
        self._resolve(batch, produce_failed(cause, FailureType.TRANSACTION_FAILED))
        return True

    def _retry_later(self, queue: PartitionQueue, refresh: bool) -> None:
        if not queue.is_backing_off:
            queue.is_backing_off = True
            self._loop.call_later(self._retry_backoff_s, self._end_back_off, queue)
        if refresh:
            self._connections.refresh()

    # The timers below set flags instead of comparing times: an event loop may call them slightly too early.

    def _end_back_off(self, queue: PartitionQueue) -> None:
        queue.is_backing_off = False
        self.pump()

    def _linger(self, batch: Batch) -> None:
        self._loop.call_later(self._linger_s, self._end_linger, batch)
        self.pump()  # Watches the delivery time-out.

    def _end_linger(self, batch: Batch) -> None:
        batch.is_lingering = False
        self.pump()

    def _split(self, batch: Batch, cause: ProducerError) -> None:
        """Replace a batch that is too large with two smaller ones."""
        if self._fail_with_transaction(batch, cause):
            return
        with self.guard:
            place = batch.queue.batches.index(batch)
            del batch.queue.batches[place]
            self.buffered -= batch.size
            for offset, part in enumerate(batch.split(self._session.identity, self._codec)):
                self.buffered += part.size
                batch.queue.batches.insert(place + offset, part)
        batch.queue.resend = True

    def _resolve(
        self,
        batch: Batch,
        error: ProduceFailedError | None,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        queue = batch.queue
        with self.guard:
            batch.resolve(error, base_offset, log_append_time_ms, log_start_offset)
            self.buffered -= batch.size
            if queue.batches and queue.batches[0] is batch:
                queue.batches.popleft()
            else:
                queue.batches.remove(batch)
            if not queue.batches:
                self._active.pop((queue.topic, queue.partition), None)
            if not self._active:
                self.buffered = 0  # Exact again, if an interruption has come between a batch and its count.
        if self._telemetry is not None:
            sent, seconds = batch.count if batch.sequence != NO_SEQUENCE else 0, self._loop.time() - batch.created_s
            # Soon, because it calls the application, which may wait for a thread that waits for this one in `send`.
            self._loop.call_soon(self._telemetry.batch_ended, queue.topic, queue.partition, sent, seconds, error)
        while self._waiting_for_room and not self.is_full:
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        waiter = self._waiting_for_room.popleft()
        if not waiter.done():
            waiter.set_result(None)

    # --- the end of a transaction

    async def flush(self) -> None:
        """Wait until all records sent so far are resolved."""
        self._flushing += 1
        try:
            self.pump()
            for batch in self._batches():
                await batch.waiter()
        finally:
            self._flushing -= 1

    def drop(self) -> None:
        """Fail all records that are not in flight, because their transaction has to be aborted."""
        end = "the producer was closed" if self._session.state == State.CLOSED else "the transaction was aborted"
        cause = self._session.error or ProducerError(end)
        error = produce_failed(cause, FailureType.TRANSACTION_FAILED)
        for batch in self._batches():
            if not batch.in_flight:
                self._session.needs_new_epoch |= batch.sequence != NO_SEQUENCE
                self._resolve(batch, error)
        while self._waiting_for_room:
            self._wake_waiting()
        self.add_partitions_needed.set()

    def _batches(self) -> list[Batch]:
        """Return all batches that are not resolved."""
        with self.guard:
            return [batch for queue in self._active.values() for batch in queue.batches]

    async def drop_and_wait(self) -> None:
        """Fail all records, and wait for the responses to those that are in flight."""
        self.drop()
        await self._in_flight.wait()
        self.drop()

    def start_epoch(self) -> None:
        """Restart sequence numbers if the producer id or epoch has changed."""
        if self._identity != self._session.identity:
            self._identity = self._session.identity
            with self.guard:
                self._queues.clear()

    def has_open_batch(self, topic: str, partition: int) -> bool:
        """Return whether a partition has a batch to which records can be added."""
        queue = self._queues.get((topic, partition))
        return queue is not None and queue.open_batch() is not None

    def missing_partitions(self) -> list[TopicPartition]:
        """Return the partitions with records that the coordinator has not added to the transaction, sorted."""
        with self.guard:
            return sorted(where for where in self._active if where not in self._session.added)

    # --- delivery time-out

    def _oldest(self) -> list[Batch]:
        """Return the oldest batch of each partition. The caller holds the lock."""
        return [queue.batches[0] for queue in self._active.values() if queue.batches]

    def _check_expiry(self) -> None:
        with self.guard:
            oldest = self._oldest()
        for batch in oldest:
            if self._timeout.is_over(batch) and not batch.is_resolved:
                self._expire(batch)
        self.pump()  # Watches the batches that are left.

    def _expire(self, batch: Batch) -> None:
        cause = self._timeout.error(batch)
        self._session.fail_abortable(cause)
        self._resolve(batch, produce_failed(cause, FailureType.DELIVERY_FAILED))
        self._session.needs_new_epoch |= batch.sequence != NO_SEQUENCE  # Now no other thread can seal it any more.
        self.drop()

    async def close(self) -> None:
        """Stop the timers and cancel the requests. Records that are not resolved fail."""
        await self._in_flight.close()
        for batch in self._batches():
            batch.mark_returned()
        self.drop()
        self._timeout.close()
