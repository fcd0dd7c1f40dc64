"""The transactional consumer in a group that changes, and with transactions that stay open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import ConsumerStoppedError, KafkaConnectionError, KafkaError, NoOffsetForPartitionError

from stuntbroker.client import (
    GroupMetadata,
    IllegalStateError,
    OperationTimedOutError,
    TransactionalConsumer,
    TransactionalProducer,
    blocking,
)
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import Fault

IN = TopicPartition("in", 0)


@pytest.fixture
async def producer(stuntbroker: Broker) -> AsyncIterator[TransactionalProducer]:
    stuntbroker.create_topic("in", 2)
    async with TransactionalProducer(
        bootstrap_servers=stuntbroker.bootstrap, transactional_id="id", retry_backoff_ms=5
    ) as producer:
        await producer.init_transactions()
        yield producer


def consumer_of(broker: Broker, **options: object) -> TransactionalConsumer:
    return TransactionalConsumer(
        "in", bootstrap_servers=broker.bootstrap, group_id="group", heartbeat_interval_ms=50, **options
    )


async def until_fired(fault: Fault) -> None:
    """Wait until a fault has fired."""
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(lambda: fault.fired):
            await asyncio.sleep(0.01)


async def test_group_metadata_still_has_the_member_id_after_removal_from_the_group(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    """aiokafka forgets member id and generation on removal; the coordinator needs them to fence this consumer (KIP-447)."""
    await asyncio.to_thread(stuntbroker.produce, "in", b"record", partition=0)
    async with consumer_of(stuntbroker) as consumer:
        records = await consumer.getmany(timeout_ms=5_000)
        member = consumer.group_metadata()
        assert member.generation_id > 0 and member.member_id
        joins = await asyncio.to_thread(stuntbroker.faults.add, "JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS")
        await asyncio.to_thread(stuntbroker.faults.add, "Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
        await until_fired(joins)
        assert consumer._coordinator.member_id == ""
        assert consumer.group_metadata() == member
        assert records
        await asyncio.to_thread(joins.remove)
    await asyncio.to_thread(stuntbroker.clock.advance, minutes=1)  # The group forgets the member that it was.


async def test_group_metadata_has_no_member_for_manually_assigned_partitions(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    consumer = TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    consumer.assign([IN])
    async with consumer:
        assert consumer.group_metadata() == GroupMetadata("group", -1, "", None)
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({IN: 7}, consumer.group_metadata())
        await producer.commit_transaction()
        await consumer.reset_to_committed()
        assert await consumer.position(IN) == 7


async def test_a_reset_that_waits_for_an_open_transaction_has_a_time_out(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    async with consumer_of(stuntbroker) as consumer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({IN: 1}, "group")
        with pytest.raises(OperationTimedOutError, match="Abort it first"):
            await consumer.reset_to_committed(timeout_ms=100)
        await producer.abort_transaction()
        await consumer.reset_to_committed()
        assert await consumer.position(IN) == 0


async def test_a_reset_leaves_partitions_alone_that_another_member_has_by_now(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    async with consumer_of(stuntbroker) as first:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({IN: 0}, "group")
        reset = asyncio.create_task(first.reset_to_committed())
        async with asyncio.timeout(20):
            await asyncio.sleep(0)
            second = consumer_of(stuntbroker)
            start = asyncio.create_task(second.start())
            while len(first.assignment()) != 1:
                await asyncio.sleep(0.01)
            await producer.commit_transaction()
            await reset
            await start
            (left,) = first.assignment()
            assert await first.position(left) == 0
            await second.stop()


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_without_a_committed_offset_a_reset_goes_back_to_where_reading_began(
    stuntbroker: Broker, reset: str
) -> None:
    """Otherwise, the records of the aborted transaction would be skipped silently, or older records would be read."""
    stuntbroker.create_topic("in")
    await asyncio.to_thread(stuntbroker.produce, "in", b"before", b"it")
    consumer = TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group", auto_offset_reset=reset)
    consumer.assign([IN])
    async with consumer:
        if reset == "none":
            consumer.seek(IN, 2)
        begins = 0 if reset == "earliest" else 2
        assert await consumer.position(IN) == begins
        await asyncio.to_thread(stuntbroker.produce, "in", b"1", b"2")
        for _ in range(2):
            values = []
            while len(values) < 4 - begins:
                values += [record.value for record in (await consumer.getmany(timeout_ms=5_000, max_records=1))[IN]]
            assert values == [b"before", b"it", b"1", b"2"][begins:]
            await consumer.reset_to_committed()
        assert await consumer.position(IN) == begins
        await consumer.seek_to_end(IN)
        await consumer.reset_to_committed()
        assert await consumer.position(IN) == begins


@pytest.mark.parametrize("how", ["async with", "start"])
async def test_a_cancelled_start_leaves_no_tasks_and_no_group_member(stuntbroker: Broker, how: str) -> None:
    """A member without a consumer would keep its partitions forever."""
    stuntbroker.create_topic("in", 2)
    before = asyncio.all_tasks()
    consumer = consumer_of(stuntbroker)
    joins = await asyncio.to_thread(stuntbroker.faults.add, "SyncGroup", error="REBALANCE_IN_PROGRESS")

    async def enter() -> None:
        async with consumer:
            raise AssertionError("it has started")

    starting = asyncio.create_task(enter() if how == "async with" else consumer.start())
    await until_fired(joins)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.to_thread(joins.remove)

    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    async with consumer_of(stuntbroker) as other:
        assert len(other.assignment()) == 2
    with pytest.raises(IllegalStateError, match="was started before, or closed"):
        await consumer.start()


async def test_a_cancelled_start_does_not_wait_for_other_group_members(stuntbroker: Broker) -> None:
    """aiokafka would wait until the other members rejoin, for up to their `max_poll_interval_ms`."""
    stuntbroker.create_topic("in", 2)
    options = {"bootstrap_servers": stuntbroker.bootstrap, "group_id": "group"}
    slow = {"heartbeat_interval_ms": 600_000, "session_timeout_ms": 1_800_000, "max_poll_interval_ms": 1_800_000}
    async with TransactionalConsumer("in", **options, **slow):
        given_up = TransactionalConsumer("in", **options)
        starting = asyncio.create_task(given_up.start())
        joins = await asyncio.to_thread(stuntbroker.faults.add, "JoinGroup", delay_ms=0)
        await until_fired(joins)
        starting.cancel()
        async with asyncio.timeout(20):
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert given_up._coordinator._coordination_task.done()
        assert not any(connection.connected() for connection in given_up._client._conns.values())
        (group,) = await asyncio.to_thread(stuntbroker.groups)
        assert len(group.members) == 1


async def test_a_reset_goes_back_in_partitions_that_stayed_through_a_rebalance(stuntbroker: Broker) -> None:
    """A rebalance is the usual reason for an abort."""
    stuntbroker.create_topic("in", 2)
    async with consumer_of(stuntbroker, auto_offset_reset="latest") as first:
        for partition in (0, 1):
            assert await first.position(TopicPartition("in", partition)) == 0
            await asyncio.to_thread(stuntbroker.produce, "in", b"1", b"2", partition=partition)
        read = 0
        while read < 4:
            read += sum(len(batch) for batch in (await first.getmany(timeout_ms=5_000)).values())
        async with consumer_of(stuntbroker) as second:
            assert len(second.assignment()) == 1
            (kept,) = first.assignment()
            await first.reset_to_committed()
            assert await first.position(kept) == 0


async def test_a_start_that_found_no_broker_may_be_repeated(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in", 2)
    consumer = consumer_of(stuntbroker)
    hosts, consumer._client._bootstrap_servers = consumer._client._bootstrap_servers, "127.0.0.1:1"
    with pytest.raises(KafkaConnectionError):
        await consumer.start()
    consumer._client._bootstrap_servers = hosts
    async with consumer:
        assert len(consumer.assignment()) == 2


async def test_group_metadata_has_no_member_after_unsubscribe(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    await asyncio.to_thread(stuntbroker.produce, "in", b"1", b"2", partition=0)
    async with consumer_of(stuntbroker) as consumer:
        await consumer.getmany(timeout_ms=5_000, max_records=1)
        consumer.unsubscribe()
        consumer.assign([IN])
        await consumer.seek_to_beginning(IN)
        records = await consumer.getmany(timeout_ms=5_000)
        assert consumer.group_metadata() == GroupMetadata("group")
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction(consumer.next_offsets(records), consumer.group_metadata())
        await producer.commit_transaction()
    assert stuntbroker.committed("group") == {("in", 0): 2}


async def test_a_reset_without_committed_offset_and_auto_offset_reset_raises_no_offset_for_partition(
    stuntbroker: Broker,
) -> None:
    stuntbroker.create_topic("in")
    consumer = TransactionalConsumer(
        bootstrap_servers=stuntbroker.bootstrap, group_id="group", auto_offset_reset="none"
    )
    consumer.assign([IN])
    async with consumer:
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.reset_to_committed()


async def test_a_fetch_that_waits_to_be_repeated_does_not_keep_a_consumer_from_closing(stuntbroker: Broker) -> None:
    """Fetches wait like this while the broker is down. aiokafka's `close` cancels them, and raises CancelledError itself."""
    stuntbroker.create_topic("in", 2)
    before = asyncio.all_tasks()
    consumer = consumer_of(stuntbroker)
    await consumer.start()
    waiting = [asyncio.create_task(asyncio.sleep(3600)) for _ in range(2)]
    consumer._fetcher._pending_tasks.update(waiting)
    await asyncio.sleep(0)
    await consumer.stop()
    assert all(fetch.cancelled() for fetch in waiting)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


class FailingAssignor(RoundRobinPartitionAssignor):
    """Raises an error at an assignment while `fails` is true, which aiokafka does not expect."""

    fails = False

    @classmethod
    def on_assignment(cls, assignment: object) -> None:
        if cls.fails:
            raise RuntimeError("no assignment")


async def test_stop_leaves_the_group_and_no_task_when_the_coordination_fails_meanwhile(
    stuntbroker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """aiokafka's own `stop` stops at the coordinator's failure, and leaves the fetcher and the heartbeats running."""
    stuntbroker.create_topic("in", 2)
    before = asyncio.all_tasks()
    consumer = consumer_of(stuntbroker, partition_assignment_strategy=[FailingAssignor])
    await consumer.start()
    monkeypatch.setattr(FailingAssignor, "fails", True)
    joins = await asyncio.to_thread(stuntbroker.faults.add, "JoinGroup", hold=True)
    consumer.subscribe(["in", "other"])
    await until_fired(joins)

    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    await asyncio.to_thread(joins.remove)
    await stopping

    assert "was stopped after a failure" in caplog.text
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    (group,) = await asyncio.to_thread(stuntbroker.groups)
    assert group.members == ()


@pytest.mark.parametrize("turns_before", [1, 2, 5, 20])
async def test_a_cancelled_stop_continues_and_a_second_stop_waits_for_it(
    stuntbroker: Broker, turns_before: int
) -> None:
    stuntbroker.create_topic("t")
    before = asyncio.all_tasks()
    consumer = TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    await consumer.start()
    await consumer.getmany(timeout_ms=100)
    stopping = asyncio.create_task(consumer.stop())
    for _ in range(turns_before):
        await asyncio.sleep(0)
    stopping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stopping
    await consumer.stop()
    assert asyncio.all_tasks() == before
    (group,) = await asyncio.to_thread(stuntbroker.groups)
    assert group.members == ()


async def test_a_reset_of_a_stopped_consumer_raises_and_opens_no_connection(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    async with TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="group") as consumer:
        await consumer.getmany(timeout_ms=100)
    with pytest.raises(ConsumerStoppedError):
        await consumer.reset_to_committed()
    assert not any(connection.connected() for connection in consumer._client._conns.values())


RETRIED = [
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "COORDINATOR_NOT_AVAILABLE"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("OffsetFetch", "REQUEST_TIMED_OUT"),
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
    ("OffsetFetch", "KAFKA_STORAGE_ERROR"),
    ("JoinGroup", "REBALANCE_IN_PROGRESS"),
    ("JoinGroup", "REQUEST_TIMED_OUT"),
    ("JoinGroup", "THROTTLING_QUOTA_EXCEEDED"),
    ("SyncGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("SyncGroup", "NETWORK_EXCEPTION"),
    ("Heartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("Heartbeat", "REQUEST_TIMED_OUT"),
]


@pytest.mark.parametrize(("api", "error"), RETRIED)
async def test_transient_coordinator_errors_do_not_end_the_consumer(api: str, error: str, stuntbroker: Broker) -> None:
    """aiokafka does not retry after some of these errors, and raises them from every later call."""
    stuntbroker.create_topic("in")
    fault = await asyncio.to_thread(stuntbroker.faults.add, api, error=error, times=1)
    async with consumer_of(stuntbroker, retry_backoff_ms=5) as consumer:
        await until_fired(fault)
        await asyncio.to_thread(stuntbroker.produce, "in", b"record")
        async with asyncio.timeout(20):
            while not await consumer.getmany(timeout_ms=100):
                pass
        await consumer.reset_to_committed()


async def test_getmany_keeps_its_time_out_during_a_rebalance_and_without_a_subscription(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    async with consumer_of(stuntbroker, retry_backoff_ms=5) as consumer, asyncio.timeout(20):
        joins = await asyncio.to_thread(stuntbroker.faults.add, "JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS")
        await asyncio.to_thread(stuntbroker.faults.add, "Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
        await until_fired(joins)
        assert await consumer.getmany(timeout_ms=50) == {}
        with pytest.raises(OperationTimedOutError, match="being rebalanced, call it again"):
            await consumer.reset_to_committed(0)
        await asyncio.to_thread(joins.remove)
        await asyncio.to_thread(stuntbroker.produce, "in", b"record")
        while not await consumer.getmany(timeout_ms=100):
            await asyncio.to_thread(stuntbroker.clock.advance, seconds=10)  # The group forgets the member that it was.
        consumer.unsubscribe()
        assert await consumer.getmany(timeout_ms=50) == {}


OTHER = TopicPartition("in", 7)
ILLEGAL: dict[str, Callable[[TransactionalConsumer], object]] = {
    "seek": lambda consumer: consumer.seek(OTHER, 0),
    "pause": lambda consumer: consumer.pause(OTHER),
    "assign": lambda consumer: consumer.assign([OTHER]),
    "highwater": lambda consumer: consumer.highwater(OTHER),
    "position": lambda consumer: consumer.position(OTHER),
    "commit": lambda consumer: consumer.commit({OTHER: 1}),
    "seek_to_end": lambda consumer: consumer.seek_to_end(OTHER),
}


@pytest.mark.parametrize(
    ("topics", "error", "message"),
    [
        (("",), ValueError, "is invalid"),
        (("a b",), ValueError, "is invalid"),
        ((["t"],), TypeError, "is a text, not list"),
    ],
)
async def test_an_invalid_topic_is_rejected_by_the_constructor_and_by_subscribe(
    topics: Any, error: type[Exception], message: str
) -> None:
    """Otherwise, `start` would request the topic's metadata forever."""
    with pytest.raises(error, match=message):
        TransactionalConsumer(*topics, bootstrap_servers="localhost:9092", group_id="group")
    with pytest.raises(error, match=message):
        blocking.TransactionalConsumer(*topics, bootstrap_servers="localhost:9092", group_id="group")
    consumer = TransactionalConsumer(bootstrap_servers="localhost:9092", group_id="group")
    with pytest.raises(error, match=message):
        consumer.subscribe(topics)
    await consumer.stop()


async def test_calls_in_a_wrong_state_raise_illegal_state_error_and_no_kafka_error(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    consumer = consumer_of(stuntbroker)
    with pytest.raises(IllegalStateError, match=r"^commit\(\): the consumer of group 'group' is not started"):
        await consumer.commit()
    idle = TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    with pytest.raises(IllegalStateError, match=r"^seek\(\): the consumer of group 'group' is not started"):
        idle.seek(OTHER, 0)
    with pytest.raises(IllegalStateError, match=r"^pause\(\) of .*: no partitions are assigned$"):
        idle.pause(OTHER)
    await idle.stop()
    async with consumer:
        for name, call in ILLEGAL.items():
            with pytest.raises(IllegalStateError, match=rf"^{name}\(\) of the consumer of group 'group': ") as raised:
                if asyncio.iscoroutine(result := call(consumer)):
                    await result
            assert not isinstance(raised.value, KafkaError)
    for name, call in ILLEGAL.items():
        with pytest.raises(ConsumerStoppedError, match=rf"^{name}\(\): the consumer of group 'group' is stopped"):
            if asyncio.iscoroutine(result := call(consumer)):
                await result
    assert not any(connection.connected() for connection in consumer._client._conns.values())


async def test_stop_works_when_unsubscribe_follows_start_immediately(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    consumer = consumer_of(stuntbroker)
    await consumer.start()
    consumer.unsubscribe()
    await asyncio.sleep(0)
    await consumer.stop()
    assert not any(connection.connected() for connection in consumer._client._conns.values())
    # A JoinGroup in flight may have created a member without a consumer; the session time-out removes it.
    await asyncio.to_thread(stuntbroker.clock.advance, minutes=1)


async def test_a_negative_offset_is_not_committed(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    async with consumer_of(stuntbroker, connections_max_idle_ms=None, max_poll_records=None) as consumer:
        with pytest.raises(ValueError, match="-7 is no offset of 'in'"):
            await consumer.commit({IN: -7})
        await consumer.commit({IN: (3, "three")})
        assert await consumer.committed(IN) == 3


def test_a_consumer_refuses_the_calls_of_another_event_loop(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    consumers: list[TransactionalConsumer] = []

    async def start() -> None:
        consumers.append(consumer_of(stuntbroker))
        await consumers[0].start()

    async def use() -> None:
        for call in (consumers[0].getone(), consumers[0].getmany(timeout_ms=10), consumers[0].commit()):
            with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was created"):
                await call

    with asyncio.Runner() as first:
        first.run(start())
        asyncio.run(use())  # While the first loop does not run.
        first.run(consumers[0].stop())
