"""`TransactionalConsumer`: AIOKafkaConsumer for applications that commit their offsets in transactions of a producer.

The consumer reads only committed records, waits for offsets that are part of an open transaction (OffsetFetch 7 with
RequireStable, KIP-447), and returns the group metadata that TxnOffsetCommit needs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from aiokafka.protocol.offset import OffsetRequest

from stuntbroker.client.connections.connections import guard_connections, leader_address
from stuntbroker.client.connections.options import BACKOFF_MS_MIN
from stuntbroker.client.consumer.calls import CheckedConsumer
from stuntbroker.client.consumer.coordinator_responses import fetch_stable_offsets, retriable_code
from stuntbroker.client.consumer.options import READ_COMMITTED, check_consumer_options
from stuntbroker.client.consumer.types import ConsumerOptions, ConsumerRecord, TopicPartition
from stuntbroker.client.logger import log
from stuntbroker.client.producer.arguments import Offsets, check_topics, offsets_of
from stuntbroker.client.producer.coordination import GroupMetadata
from stuntbroker.client.telemetry import ConsumerTelemetry, OnMeasurement
from stuntbroker.client.transactional_errors import IllegalStateError, OperationTimedOutError
from stuntbroker.protocol.addresses import Address

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

COORDINATOR_CHECK_S: Final = 0.1
"""How often, in seconds, `start` looks whether the coordinator was reached."""
LEAVE_S: Final = 2.0
"""How long, in seconds, a consumer that stops tries to leave the group."""


class TransactionalConsumer(CheckedConsumer):
    """Reads committed records, for an application that writes with a TransactionalProducer.

        async with TransactionalConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            batch = await consumer.getmany(timeout_ms=1000)
            ...
            await producer.send_offsets_to_transaction(consumer.next_offsets(batch), consumer.group_metadata())

    Options are those of AIOKafkaConsumer, with four exceptions: `group_id` is required, `isolation_level` is always
    read_committed, `enable_auto_commit` is always off, and `auto_offset_reset` defaults to "earliest".

    Errors are those of the producer: FatalError, RetriableError, IllegalStateError. What an application handles by name is still
    an error of aiokafka: KafkaConnectionError and UnknownTopicOrPartitionError (of `start`), CommitFailedError (of `commit`),
    NoOffsetForPartitionError, OffsetOutOfRangeError, CorruptRecordException, RecordTooLargeError, ConsumerStoppedError.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        auto_offset_reset: str = "earliest",
        tracer: Tracer | None = None,
        on_measurement: OnMeasurement | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Create a consumer, which `start` connects. Needs a running event loop, to which the consumer belongs from then on.

        Raises TypeError for unknown options, ValueError for values out of range or that would bypass transactions.

        `tracer`: an OpenTelemetry tracer, for a span of each call that returns records. `on_measurement`: a function that is
        called with each `Measurement`.
        """
        check_topics(topics)
        auto_offset_reset = check_consumer_options(
            group_id=group_id,
            auto_offset_reset=auto_offset_reset,
            tracer=tracer,
            on_measurement=on_measurement,
            **options,
        )
        super().__init__(
            *topics,
            group_id=group_id,
            auto_offset_reset=auto_offset_reset,
            retry_backoff_ms=max(options.pop("retry_backoff_ms", 100), BACKOFF_MS_MIN),
            **options | {"isolation_level": READ_COMMITTED, "enable_auto_commit": False},
        )
        self._telemetry: ConsumerTelemetry | None = None
        if tracer is not None or on_measurement is not None:
            leader_of = partial(leader_address, self._client)
            self._telemetry = ConsumerTelemetry(tracer, on_measurement, self._client._client_id, group_id, leader_of)
        self._group_name = group_id
        self._membership = GroupMetadata(group_id)
        """The membership with the current assignment. aiokafka drops its own as soon as the coordinator has dropped it."""
        self._member_of_records: GroupMetadata | None = None
        """The membership under which the last records were returned."""
        self._begins_at = auto_offset_reset
        self._first_read: dict[TopicPartition, int] = {}
        """Partition of `_assignment` -> lowest offset of the records that were returned."""
        self._assignment: object = None
        self._starting: asyncio.Future[Any] | None = None
        """The work of `start`, until that ends."""
        self._stopping: asyncio.Task[None] | None = None
        guard_connections(self._client, on_authenticated=self._authenticated)
        # aiokafka's coordinator sends all requests by the client's `send`; its OffsetFetch has no RequireStable.
        self._send_plainly = self._client.send
        self._client.send = self._send
        self._subscription.fetch_context = partial(_fetch_context, self._subscription)
        wait_for_assignment = self._subscription.wait_for_assignment
        self._subscription.wait_for_assignment = partial(
            _wait_for_assignment, self._subscription, lambda: self._unless_refused(wait_for_assignment())
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except KafkaConnectionError:  # After any other error, the consumer is closed, or was running before.
            await self.stop()
            raise
        return self

    async def start(self) -> None:
        """Connect to the cluster and join the group.

        Raises FatalError, and aiokafka's KafkaConnectionError and UnknownTopicOrPartitionError. If no broker was found,
        `start` may be called again. After any other failure, or a cancellation, the consumer is closed. If there is no connection
        to the group's coordinator for `request_timeout_ms`, that is a failure too.
        """
        if self._starting is not None or self._fetcher is not None or self._closed or self._stopping is not None:
            raise IllegalStateError(
                f"start(): the consumer of group {self._group_name!r} was started before, or closed"
            )
        starting = self._starting = asyncio.ensure_future(self._unless_refused(super().start()))
        try:
            await self._until_started(starting)
            return
        except KafkaConnectionError:
            if self._fetcher is not None:
                await self._undo_start()
            raise
        except KafkaError as fault:
            await self._undo_start()
            error = fault if isinstance(fault, UnknownTopicOrPartitionError) else self._errors.translated(fault)
        except BaseException:
            await self._undo_start()
            raise
        finally:
            self._starting = None
        raise error  # Not in the handler: it may be a cause of the handled error.

    async def _wait_topics(self) -> None:
        """Wait until the topics are known. Raises aiokafka's UnknownTopicOrPartitionError, with the name of the topic."""
        subscription = self._subscription.subscription
        for topic in () if subscription is None else sorted(subscription.topics):
            try:
                await self._client._wait_on_metadata(topic)
            except UnknownTopicOrPartitionError:
                raise UnknownTopicOrPartitionError(f"topic {topic!r} is not known") from None

    async def _until_started(self, starting: asyncio.Future[Any]) -> None:
        """Wait for the work of `start`. Raises its error; IllegalStateError if `stop` has cancelled it; KafkaConnectionError."""
        timeout_s = self._client._request_timeout_ms / 1000
        reached_s = self._loop.time()
        try:
            while not starting.done():
                await asyncio.wait({starting}, timeout=COORDINATOR_CHECK_S)
                coordinator = self._coordinator
                if not isinstance(coordinator, GroupCoordinator) or coordinator.coordinator_id is not None:
                    reached_s = self._loop.time()
                elif self._loop.time() - reached_s > timeout_s:
                    raise self._no_coordinator(timeout_s)
        finally:
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
        if starting.cancelled():
            raise IllegalStateError(f"start(): the consumer of group {self._group_name!r} was stopped meanwhile")
        starting.result()

    def _no_coordinator(self, timeout_s: float) -> KafkaConnectionError:
        """Return the error for a coordinator that was not reached, for example because its advertised address is wrong."""
        brokers = (f"{each.nodeId} at {Address(each.host, each.port)}" for each in self._client.cluster.brokers())
        return KafkaConnectionError(
            f"no coordinator of group {self._group_name!r} was reached within {timeout_s:g} s; "
            f"the brokers by their advertised addresses: {', '.join(brokers)}"
        )

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to those that match `pattern`. Raises TypeError, ValueError for an invalid name.

        `listener` is called in the event loop's thread; it may seek and pause. aiokafka logs its errors, and goes on.
        """
        check_topics(topics)
        super().subscribe(topics, pattern, listener)

    async def _undo_start(self) -> None:
        """Close the consumer, even if the caller is cancelled meanwhile."""
        await asyncio.shield(asyncio.ensure_future(self.stop()))

    async def _cancel_joining(self) -> None:
        """Cancel a pending JoinGroup, which would wait for the other members."""
        joining = getattr(self._coordinator, "_coordination_task", None)
        if joining is not None and not joining.done():
            joining.cancel()
            await asyncio.wait({joining})
            await self._leave_unjoined()

    async def _leave_unjoined(self) -> None:
        """Leave the group as a member that has not joined it yet, so that the others need not wait for it."""
        coordinator = self._coordinator
        if coordinator.member_id and self._group_instance_id is None:
            for (_, group), connection in list(self._client._conns.items()):
                if group == ConnectionGroup.COORDINATION:
                    connection.close()  # Its JoinGroup has no response yet.
            with suppress(KafkaError):
                await coordinator._send_req(LeaveGroupRequest(self._group_name, coordinator.member_id))

    async def stop(self) -> None:
        """Leave the group, and close all connections. May be called twice; it continues if a call is cancelled.

        During `start`, this ends it. Raises IllegalStateError in another event loop, and in a rebalance listener.
        """
        self._check_loop("stop")
        if asyncio.current_task() is getattr(self._coordinator, "_coordination_task", None):
            text = f"stop() of the consumer of group {self._group_name!r}: a rebalance listener would wait for itself"
            raise IllegalStateError(text)
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
            await self._cancel_joining()
        try:
            await super().stop()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # aiokafka has cancelled a fetch during its back-off, for example while the broker is down, and raises that.
            await self._close_remaining()
        except Exception as fault:  # A background task of aiokafka had failed, and `getmany` has raised its error.
            log.warning("the consumer of group %r was stopped after a failure: %r", self._group_name, fault)
            await self._close_remaining()

    async def _close_remaining(self) -> None:
        """Close what aiokafka's `stop` has left open when it raised; what it has closed is not closed again."""
        coordinator, fetcher = self._coordinator, self._fetcher
        try:
            if isinstance(coordinator, GroupCoordinator):
                await coordinator._stop_heartbeat_task()
                await coordinator._stop_commit_offsets_refresh_task()
                await coordinator._maybe_leave_group()
            if fetcher is not None:
                pending = {task for task in (fetcher._fetch_task, *fetcher._pending_tasks) if not task.done()}
                for task in pending:
                    task.cancel()
                if pending:
                    await asyncio.wait(pending)
                for waiter in fetcher._fetch_waiters:
                    fetcher._notify(waiter)
        finally:
            await self._client.close()

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record, waiting without a time-out. Raises IllegalStateError before `start`."""
        since_ns = time.time_ns()
        record = await super().getone(*partitions)
        self._note({TopicPartition(record.topic, record.partition): [record]})
        if self._telemetry is not None:
            self._telemetry.received([[record]], since_ns, is_single=True)
        return record

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition as soon as there are any, none after `timeout_ms`.

        Raises IllegalStateError before `start`.
        """
        since_ns = time.time_ns()
        records: dict[TopicPartition, list[ConsumerRecord]] = {}
        deadline = asyncio.timeout(timeout_ms / 1000)
        try:
            async with deadline:  # During a rebalance, aiokafka waits for the new assignment without a time-out.
                records = await super().getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        except TimeoutError:
            if not deadline.expired():
                raise
        if records:
            self._note(records)
        if self._telemetry is not None:
            self._telemetry.received(list(records.values()), since_ns)
        return records

    def _note(self, records: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        """Store the membership and the first offsets of the records that are about to be returned."""
        self._member_of_records = self._membership
        first_read = self._first_reads()
        for partition, batch in records.items():
            offset = batch[0].offset
            first_read[partition] = min(offset, first_read.get(partition, offset))

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit offsets without a transaction: `{partition: offset}`, or the current positions. Raises ValueError, TypeError."""
        await super().commit(None if offsets is None else offsets_of(offsets))

    def _assignment_in_use(self) -> object:
        """Return aiokafka's object for the current assignment, another one after each rebalance; None if there is none."""
        subscription = self._subscription.subscription
        return None if subscription is None else subscription.assignment

    def _first_reads(self) -> dict[TopicPartition, int]:
        """Return the lowest offset returned from each partition that has stayed assigned since."""
        assignment = self._assignment_in_use()
        if assignment is not None and assignment is not self._assignment:  # None during a rebalance.
            self._assignment = assignment
            stays = self.assignment()
            self._first_read = {
                partition: offset for partition, offset in self._first_read.items() if partition in stays
            }
        return self._first_read

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without being a member of the group."""
        super().assign(partitions)
        self._membership = GroupMetadata(self._group_name)

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        if self._fetcher is None and not self._closed:
            self._subscription.unsubscribe()  # aiokafka's method needs a group to leave.
        else:
            super().unsubscribe()
        self._membership = GroupMetadata(self._group_name)

    def group_metadata(self) -> GroupMetadata:
        """Return group id, generation, member id and instance id under which the last records were returned (KIP-447).

        If the group has been rebalanced since, the coordinator rejects the offsets, because another member may have read
        the same records already.
        """
        return self._member_of_records or self._membership

    @staticmethod
    def next_offsets(records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, int]:
        """Return the offsets to commit for records that `getmany` returned: partition -> offset of the next record."""
        if not isinstance(records, Mapping):
            raise TypeError(
                f"next_offsets takes what getmany returned, a dict by partition, not {type(records).__name__}"
            )
        return {partition: batch[-1].offset + 1 for partition, batch in records.items() if batch}

    async def reset_to_committed(self, timeout_ms: int = 60_000) -> None:
        """Seek to the committed offset of every assigned partition, after a transaction was aborted.

        Abort the transaction first: this call waits for offsets that are part of an open one. A partition without a committed
        offset goes back to the first record that was returned from it, or stays where it is if there was none. Partitions that
        were reassigned to another member meanwhile are skipped. Unlike `seek_to_committed`, this also seeks to offset 0. Raises
        OperationTimedOutError after `timeout_ms`, aiokafka's NoOffsetForPartitionError (without a committed offset, if
        `auto_offset_reset` is "none"), and after `stop` aiokafka's ConsumerStoppedError.
        """
        self._check_open("reset_to_committed", needs_start=True)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for partition in sorted(self.assignment()):
                    await self._reset(partition)
        except TimeoutError:
            advice = (
                "the group is being rebalanced, call it again"
                if self._subscription.reassignment_in_progress
                else "is a transaction open that has offsets of the group? Abort it first"
            )
            raise OperationTimedOutError(
                f"reset_to_committed() of group {self._group_name!r} has not ended within {timeout_ms / 1000:g} s: {advice}"
            ) from None

    async def _reset(self, partition: TopicPartition) -> None:
        try:
            offset = await self.committed(partition)
            if offset is not None and offset >= 0:
                self.seek(partition, offset)
            elif (first := self._first_reads().get(partition)) is not None:
                self.seek(partition, first)
            elif self._begins_at == "none":
                raise NoOffsetForPartitionError(partition)
        except IllegalStateError:
            if partition in self.assignment():
                raise

    async def _send(self, node_id: int, request: Any, *, group: int = ConnectionGroup.DEFAULT) -> Any:
        if isinstance(request, OffsetFetchRequest):
            offsets = await fetch_stable_offsets(self._client, self._send_plainly, node_id, request, group)
            self._errors.note(request, offsets.codes())
            return offsets
        if isinstance(request, LeaveGroupRequest):
            try:
                async with asyncio.timeout(LEAVE_S):  # A broker that hangs must not hold up `stop`.
                    return await self._send_plainly(node_id, request, group=group)
            except TimeoutError:
                raise KafkaTimeoutError(f"no response to LeaveGroup within {LEAVE_S:g} s") from None
        answer = await self._send_plainly(node_id, request, group=group)
        if isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest):
            answer.error_code = retriable_code(request, answer.error_code)
            self._errors.note(request, [answer.error_code])
        if isinstance(request, OffsetCommitRequest | OffsetRequest):
            self._errors.note(request, [part[1] for _, parts in answer.topics for part in parts])
        if isinstance(request, SyncGroupRequest) and not answer.error_code:
            # No records are returned before the assignment in this response is in use.
            self._membership = GroupMetadata(
                self._group_name, request._generation_id, request._member_id, self._group_instance_id
            )
        return answer


@contextmanager
def _fetch_context(subscription: Any) -> Iterator[None]:
    """As aiokafka's, for `max_poll_interval_ms`, but also correct if the call is cancelled or fails."""
    subscription._fetch_count += 1
    try:
        yield
    finally:
        subscription._fetch_count -= 1
        if not subscription._fetch_count:
            subscription._last_fetch_ended = time.monotonic()


async def _wait_for_assignment(subscription: Any, wait: Callable[[], Awaitable[object]]) -> None:
    """Wait until there is an assignment: aiokafka's tasks fail if it is gone again when they run."""
    while True:
        await wait()
        current = subscription.subscription
        if current is not None and current.assignment is not None:
            return
