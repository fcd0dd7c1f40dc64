"""Groups that are rebalanced while an application is at work: each record is processed once."""

import asyncio

from aiokafka import ConsumerRecord, TopicPartition

from stuntbroker.client import (
    CommitFailedError,
    TransactionAbortableError,
    TransactionalConsumer,
    TransactionalProducer,
)
from tests.peers.aiokafka_steps import create_topic, write
from tests.peers.client.committed import DEADLINE_S, committed, producing

FENCED_INSTANCE_ID = 82
Records = dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]


async def copy(producer: TransactionalProducer, consumer: TransactionalConsumer, records: Records, target: str) -> None:
    """Write what was read to another topic, with the offsets, in one transaction."""
    async with producer.transaction():
        for messages in records.values():
            for message in messages:
                await producer.send(target, message.value, partition=0)
        await producer.send_offsets_to_transaction(consumer.next_offsets(records), consumer.group_metadata())


async def read(consumer: TransactionalConsumer, count: int) -> Records:
    records: Records = {}
    while sum(map(len, records.values())) < count:
        records |= await consumer.getmany(timeout_ms=500)
    return records


async def test_records_that_were_read_before_a_rebalance_cannot_be_committed_after_it(
    each_bootstrap: str, own: str
) -> None:
    """aiokafka rebalances in the background: the generation of the records counts, not that of the moment."""
    source = await create_topic(each_bootstrap, f"{own}-in", partitions=2)
    target = await create_topic(each_bootstrap, f"{own}-out")
    for partition in range(2):
        await write(each_bootstrap, source, [f"{partition}"], partition)
    options = {"bootstrap_servers": each_bootstrap, "group_id": own, "heartbeat_interval_ms": 100}
    async with (
        asyncio.timeout(DEADLINE_S),
        producing(each_bootstrap, f"{own}-a") as first,
        producing(each_bootstrap, f"{own}-b") as second,
        TransactionalConsumer(source, **options) as slow,
    ):
        before = await read(slow, 2)
        async with TransactionalConsumer(source, **options) as quick:
            while not len(slow.assignment()) == len(quick.assignment()) == 1:
                await asyncio.sleep(0.01)
            await copy(second, quick, await read(quick, 1), target)
            try:
                await copy(first, slow, before, target)
            except CommitFailedError:
                raise AssertionError("the offsets themselves should have been refused") from None
            except TransactionAbortableError as error:
                assert error.code in (22, 25)
            else:
                raise AssertionError("a record would be processed twice")
            await slow.reset_to_committed()
            await copy(first, slow, await read(slow, 1), target)

    assert sorted(await committed(each_bootstrap, target)) == ["0", "1"]


async def test_offsets_of_a_static_member_are_committed_until_another_one_has_its_instance_id(
    each_bootstrap: str, own: str
) -> None:
    source = await create_topic(each_bootstrap, f"{own}-in")
    target = await create_topic(each_bootstrap, f"{own}-out")
    await write(each_bootstrap, source, ["0", "1"])
    options = {"bootstrap_servers": each_bootstrap, "group_id": own, "group_instance_id": "billing-1"}
    async with (
        asyncio.timeout(DEADLINE_S),
        producing(each_bootstrap, f"{own}-a") as first,
        producing(each_bootstrap, f"{own}-b") as second,
        TransactionalConsumer(source, max_poll_records=1, **options) as replaced,
    ):
        await copy(first, replaced, await read(replaced, 1), target)
        assert replaced.group_metadata().group_instance_id == "billing-1"
        before = await read(replaced, 1)
        async with TransactionalConsumer(source, **options) as member:
            await copy(second, member, await read(member, 1), target)
            try:
                await copy(first, replaced, before, target)
            except TransactionAbortableError as error:
                assert error.code == FENCED_INSTANCE_ID
            else:
                raise AssertionError("a record would be processed twice")

    assert await committed(each_bootstrap, target) == ["0", "1"]
