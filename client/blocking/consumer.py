"""`TransactionalConsumer` without asyncio: every call blocks its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from functools import partial
from inspect import signature
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import ConsumerStoppedError

from stuntbroker.client.blocking.loop_thread import same_options
from stuntbroker.client.blocking.served import Served
from stuntbroker.client.consumer import consumer as asynchronous
from stuntbroker.client.consumer.options import check_consumer_options
from stuntbroker.client.consumer.types import ConsumerRecord, OffsetAndTimestamp, TopicPartition
from stuntbroker.client.producer.arguments import check_topics
from stuntbroker.client.producer.coordination import GroupMetadata

Result = TypeVar("Result")


class TransactionalConsumer:
    """Reads committed records, for an application that writes with the TransactionalProducer of this package.

        with TransactionalConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            batch = consumer.getmany(timeout_ms=1000)
            ...
            producer.send_offsets_to_transaction(consumer.next_offsets(batch), consumer.group_metadata())

    Options, methods and errors are those of the asyncio class of the same name. Only one thread at a time may use a consumer; a
    forked process has to create its own.
    """

    @same_options(asynchronous.TransactionalConsumer)
    def __init__(self, *topics: str, **options: Any) -> None:
        signature(asynchronous.TransactionalConsumer).bind(*topics, **options)  # Raises TypeError without a group_id.
        check_topics(topics)
        check_consumer_options(**options)
        self._make = partial(asynchronous.TransactionalConsumer, *topics, **options)
        self._name = f"consumer of group {options['group_id']!r}"
        self._served: Served[asynchronous.TransactionalConsumer] = Served(self._name)
        self._starting: Any = None
        """The asyncio consumer during `start`, for a listener that calls this one."""
        self._before_start: list[Callable[[Any], None]] = []
        """Subscriptions and assignments that were made before `start`."""
        self._undelivered: dict[TopicPartition, int] = {}
        """First offsets that a call has read and not returned, because a signal interrupted its caller."""
        self._current: asyncio.Task[Any] | None = None
        """The task of the latest call, in the consumer's thread."""
        self._undelivered_of: object = None
        """The assignment in which these records were read. After a rebalance, reading begins at the committed offsets."""

    # --- start and stop

    def start(self) -> None:
        """Connect to the cluster and join the group.

        Raises FatalError, aiokafka's KafkaConnectionError and UnknownTopicOrPartitionError; IllegalStateError if the
        consumer was started before, or another thread stops it meanwhile.
        """

        async def begin() -> asynchronous.TransactionalConsumer:
            consumer = self._starting = self._make()
            try:
                for call in self._before_start:
                    call(consumer)
                await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            return consumer

        try:
            self._served.start(begin)
        finally:
            self._starting = None

    def stop(self) -> None:
        """Leave the group, and close all connections. May be called twice."""
        self._served.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # aiokafka has no types: the signatures here say what its methods return.
    def _call(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        self._check_not_stopped()
        thread, consumer = self._served.running()

        async def after_seeking_back() -> Result:
            before, self._current = self._current, asyncio.current_task()
            if before is not None and not before.done():  # A signal interrupted its caller; it must not read any more.
                before.cancel()
                await asyncio.wait({before})
            undelivered, self._undelivered = self._undelivered, {}
            if undelivered and self._undelivered_of is consumer._assignment_in_use():
                for partition, offset in undelivered.items():
                    consumer.seek(partition, offset)
            return await work(consumer)

        return thread.call(after_seeking_back)

    def _check_not_stopped(self) -> None:
        if self._served.was_started and not self._served.is_running:
            raise ConsumerStoppedError(f"the {self._name} is stopped")

    def _do(self, work: Callable[[Any], Result]) -> Result:
        """Run a function that does not block in the consumer's thread; at once, if a listener calls it there."""
        if self._starting is not None and asyncio._get_running_loop() is self._starting._loop:
            return work(self._starting)
        if self._served.is_current:
            return work(self._served.running()[1])

        async def do(consumer: Any) -> Result:
            return work(consumer)

        return self._call(do)

    def _subscribing(self, call: Callable[[Any], None]) -> None:
        """Change what is read: now, or at `start`, which raises the errors of earlier calls."""
        if not self._served.was_started:
            self._before_start.append(call)
        else:
            self._do(call)

    # --- records

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition as soon as there are any, none after `timeout_ms`."""

        async def read(consumer: Any) -> dict[TopicPartition, list[ConsumerRecord]]:
            records = await consumer.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
            self._undelivered = {partition: batch[0].offset for partition, batch in records.items()}
            self._undelivered_of = consumer._assignment_in_use()
            return cast(dict[TopicPartition, list[ConsumerRecord]], records)

        records = self._call(read)
        self._undelivered = {}
        return records

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record, waiting without a time-out."""

        async def read(consumer: Any) -> ConsumerRecord:
            record = await consumer.getone(*partitions)
            self._undelivered = {TopicPartition(record.topic, record.partition): record.offset}
            self._undelivered_of = consumer._assignment_in_use()
            return cast(ConsumerRecord, record)

        record = self._call(read)
        self._undelivered = {}
        return record

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records until the consumer is stopped. Raises ConsumerStoppedError if it is stopped already."""
        self._check_not_stopped()
        return self._until_stopped()

    def _until_stopped(self) -> Iterator[ConsumerRecord]:
        while True:
            try:
                record = self.getone()
            except ConsumerStoppedError:
                return
            yield record

    # --- transactions

    def group_metadata(self) -> GroupMetadata:
        """Return group id, generation, member id and instance id under which the last records were returned (KIP-447)."""
        metadata: GroupMetadata = self._do(lambda twin: twin.group_metadata())
        return metadata

    next_offsets = staticmethod(asynchronous.TransactionalConsumer.next_offsets)

    def reset_to_committed(self, timeout_ms: int = 60_000) -> None:
        """Seek to the committed offset of every assigned partition, after a transaction was aborted. Abort it first."""
        self._call(lambda twin: twin.reset_to_committed(timeout_ms))

    def commit(self, offsets: dict[TopicPartition, Any] | None = None) -> None:
        """Commit offsets without a transaction: `{partition: offset}`, or the current positions."""
        self._call(lambda twin: twin.commit(offsets))

    def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of a partition, None if there is none."""
        offset: int | None = self._call(lambda twin: twin.committed(partition))
        return offset

    # --- topics and partitions

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to those that match `pattern`.

        `listener` is called in the event loop's thread; it may seek and pause, but not make a call that waits for the broker.
        """
        topics = topics if isinstance(topics, str) else list(topics)
        self._subscribing(lambda twin: twin.subscribe(topics, pattern, listener))

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        self._before_start.clear()
        self._subscribing(lambda twin: twin.unsubscribe())

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._do(lambda twin: frozenset(twin.subscription()))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without being a member of the group."""
        partitions = list(partitions)
        self._subscribing(lambda twin: twin.assign(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._do(lambda twin: frozenset(twin.assignment()))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        self._do(lambda twin: twin.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._do(lambda twin: twin.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._do(lambda twin: frozenset(twin.paused()))

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, None if they are not known."""
        partitions: set[int] | None = self._do(lambda twin: twin.partitions_for_topic(topic))
        return partitions

    def topics(self) -> set[str]:
        """Return the topics that may be read."""
        return self._call(lambda twin: twin.topics())

    # --- offsets

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        offset: int = self._call(lambda twin: twin.position(partition))
        return offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record of a partition."""
        self._do(lambda twin: twin.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Seek to the first record of these partitions, or of all that are assigned."""
        is_done: bool = self._call(lambda twin: twin.seek_to_beginning(*partitions))
        return is_done

    def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Seek to the end of these partitions, or of all that are assigned."""
        is_done: bool = self._call(lambda twin: twin.seek_to_end(*partitions))
        return is_done

    def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Seek to the committed offsets of these partitions, or of all. See `reset_to_committed`, which handles missing ones."""
        return self._call(lambda twin: twin.seek_to_committed(*partitions))

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._call(lambda twin: twin.beginning_offsets(list(partitions)))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition."""
        return self._call(lambda twin: twin.end_offsets(list(partitions)))

    def offsets_for_times(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the first offset with at least this timestamp (ms), None if there is none."""
        return self._call(lambda twin: twin.offsets_for_times(timestamps))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition as of the last response, None before there is one."""
        offset: int | None = self._do(lambda twin: twin.highwater(partition))
        return offset

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of a partition as of the last response, None before there is one."""
        offset: int | None = self._do(lambda twin: twin.last_stable_offset(partition))
        return offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when the last response for a partition arrived, in ms; None before there is one."""
        time_ms: int | None = self._do(lambda twin: twin.last_poll_timestamp(partition))
        return time_ms
