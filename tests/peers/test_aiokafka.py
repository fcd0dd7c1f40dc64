"""aiokafka: produces, consumes and keeps its transactions as with Kafka."""

import asyncio
from collections.abc import Iterable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import ProducerFenced

DEADLINE_S = 30
TXN_TIMEOUT_MS = 1_500


async def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()
    return topic


async def send(producer: AIOKafkaProducer, topic: str, values: Iterable[str], partition: int = 0) -> None:
    """Produce, and wait until everything is acknowledged."""
    sent = [await producer.send(topic, value.encode(), partition=partition) for value in values]
    await asyncio.gather(*sent)


async def write(bootstrap: str, topic: str, values: Iterable[str], partition: int = 0) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await send(producer, topic, values, partition)


def transactional_producer(bootstrap: str, transactional_id: str, **options: int) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **options)


async def read(bootstrap: str, topic: str, isolation: str, until: str) -> list[str]:
    """What a reader of partition 0 sees from its beginning up to `until`."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])
    values: list[str] = []
    async with asyncio.timeout(DEADLINE_S), consumer:
        while until not in values:
            values.append((await consumer.getone()).value.decode())
    return values


def group_consumer(bootstrap: str, group: str, topic: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )


async def transform(bootstrap: str, own: str, source: str, target: str, count: int, *, commit: bool) -> None:
    """Upper-case `count` records from one topic to the other, offsets and all, and commit or abort."""
    done = 0
    async with (
        asyncio.timeout(DEADLINE_S),
        transactional_producer(bootstrap, f"{own}-transform") as producer,
        group_consumer(bootstrap, f"{own}-group", source) as consumer,
    ):
        while done < count:
            fetched = await consumer.getmany(timeout_ms=200, max_records=5)
            if not fetched:
                continue
            await producer.begin_transaction()
            for messages in fetched.values():
                for message in messages:
                    await producer.send(target, message.value.upper(), partition=0)
                done += len(messages)
            offsets = {partition: messages[-1].offset + 1 for partition, messages in fetched.items()}
            await producer.send_offsets_to_transaction(offsets, f"{own}-group")
            if commit:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()


async def test_aiokafka_consumes_in_a_group_what_it_produced(bootstrap: str, own: str) -> None:
    topic = await create_topic(bootstrap, f"{own}-topic", partitions=2)
    await write(bootstrap, topic, [f"a{n}" for n in range(50)], partition=0)
    await write(bootstrap, topic, [f"b{n}" for n in range(50)], partition=1)

    values: list[str] = []
    async with asyncio.timeout(DEADLINE_S), group_consumer(bootstrap, f"{own}-group", topic) as consumer:
        while len(values) < 100:
            fetched = await consumer.getmany(timeout_ms=200)
            values += [message.value.decode() for messages in fetched.values() for message in messages]

    assert [v for v in values if v[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [v for v in values if v[0] == "b"] == [f"b{n}" for n in range(50)]


async def test_aiokafka_reads_a_committed_transaction(bootstrap: str, own: str) -> None:
    topic = await create_topic(bootstrap, f"{own}-topic")
    async with transactional_producer(bootstrap, f"{own}-id") as producer, producer.transaction():
        await send(producer, topic, ["one", "two"])

    assert await read(bootstrap, topic, "read_committed", until="two") == ["one", "two"]


async def test_aiokafka_reads_an_aborted_transaction_only_uncommitted(bootstrap: str, own: str) -> None:
    topic = await create_topic(bootstrap, f"{own}-topic")
    async with transactional_producer(bootstrap, f"{own}-id") as producer:
        await producer.begin_transaction()
        await send(producer, topic, ["lost"])
        await producer.abort_transaction()
        async with producer.transaction():
            await send(producer, topic, ["kept"])

    assert await read(bootstrap, topic, "read_committed", until="kept") == ["kept"]
    assert await read(bootstrap, topic, "read_uncommitted", until="kept") == ["lost", "kept"]


async def test_aiokafka_transforms_exactly_once_with_the_offsets_in_the_transaction(
    bootstrap: str, own: str
) -> None:
    """KIP-98: an aborted round leaves neither records nor offsets, so the next one starts again."""
    source = await create_topic(bootstrap, f"{own}-source", partitions=2)
    target = await create_topic(bootstrap, f"{own}-target")
    await write(bootstrap, source, [f"a{n}" for n in range(12)], partition=0)
    await write(bootstrap, source, [f"b{n}" for n in range(8)], partition=1)

    await transform(bootstrap, own, source, target, 20, commit=False)
    await transform(bootstrap, own, source, target, 20, commit=True)

    await write(bootstrap, target, ["end"])
    *values, _ = await read(bootstrap, target, "read_committed", until="end")
    assert sorted(values) == sorted([f"A{n}" for n in range(12)] + [f"B{n}" for n in range(8)])
    async with group_consumer(bootstrap, f"{own}-group", source) as consumer:
        committed = [await consumer.committed(TopicPartition(source, partition)) for partition in (0, 1)]
    assert committed == [12, 8]


async def test_aiokafka_zombie_is_fenced_and_its_records_stay_invisible(bootstrap: str, own: str) -> None:
    topic = await create_topic(bootstrap, f"{own}-topic")
    async with transactional_producer(bootstrap, f"{own}-id") as zombie:
        await zombie.begin_transaction()
        await send(zombie, topic, ["zombie"])
        async with transactional_producer(bootstrap, f"{own}-id") as heir:
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            async with heir.transaction():
                await send(heir, topic, ["heir"])

    assert await read(bootstrap, topic, "read_committed", until="heir") == ["heir"]


async def test_aiokafka_producer_is_fenced_when_its_transaction_has_timed_out(
    bootstrap: str, own: str
) -> None:
    """No error tells of a time-out: the coordinator raises the epoch, and aiokafka takes that as fencing."""
    topic = await create_topic(bootstrap, f"{own}-topic")
    timeout = {"transaction_timeout_ms": TXN_TIMEOUT_MS}
    async with transactional_producer(bootstrap, f"{own}-id", **timeout) as slow:
        await slow.begin_transaction()
        await send(slow, topic, ["late"])
        await write(bootstrap, topic, ["after"])

        assert await read(bootstrap, topic, "read_committed", until="after") == ["after"]
        with pytest.raises(ProducerFenced):
            await slow.commit_transaction()
    async with transactional_producer(bootstrap, f"{own}-id") as heir, heir.transaction():
        await send(heir, topic, ["next"])
    assert await read(bootstrap, topic, "read_committed", until="next") == ["after", "next"]
