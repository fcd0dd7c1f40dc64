"""The transactional consumer in a group that changes, and with transactions that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError, NoOffsetForPartitionError

from stuntbroker.client import (
    GroupMetadata,
    OperationTimedOutError,
    TransactionalConsumer,
    TransactionalProducer,
)
from stuntbroker.fixture.broker import Broker

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


async def test_a_member_that_was_removed_from_its_group_still_says_who_it_was(
    stuntbroker: Broker, producer: TransactionalProducer
) -> None:
    """aiokafka forgets member and generation then; without them the coordinator would fence nobody."""
    await asyncio.to_thread(stuntbroker.produce, "in", b"record", partition=0)
    async with consumer_of(stuntbroker) as consumer:
        records = await consumer.getmany(timeout_ms=5_000)
        member = consumer.group_metadata()
        assert member.generation_id > 0 and member.member_id
        joins = await asyncio.to_thread(stuntbroker.faults.add, "JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS")
        await asyncio.to_thread(stuntbroker.faults.add, "Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(lambda: joins.fired):
                await asyncio.sleep(0.01)
        assert consumer._coordinator.member_id == ""
        assert consumer.group_metadata() == member
        assert records
        await asyncio.to_thread(joins.remove)
    await asyncio.to_thread(stuntbroker.clock.advance, minutes=1)  # The group forgets the member that it was.


async def test_who_assigns_partitions_by_hand_is_no_member(
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
            await second.stop()


async def test_without_a_committed_offset_and_a_place_to_begin_a_reset_says_so(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    consumer = TransactionalConsumer(
        bootstrap_servers=stuntbroker.bootstrap, group_id="group", auto_offset_reset="none"
    )
    consumer.assign([IN])
    async with consumer:
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.reset_to_committed()


async def test_a_fetch_that_waits_to_be_repeated_does_not_keep_a_consumer_from_closing(stuntbroker: Broker) -> None:
    """As while the broker is away: aiokafka cancels such a fetch, and raises that it was cancelled."""
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


async def test_a_consumer_that_is_stopped_goes_back_to_nothing_and_opens_no_connection(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    async with TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="group") as consumer:
        await consumer.getmany(timeout_ms=100)
    with pytest.raises(ConsumerStoppedError):
        await consumer.reset_to_committed()
    assert not any(connection.connected() for connection in consumer._client._conns.values())
