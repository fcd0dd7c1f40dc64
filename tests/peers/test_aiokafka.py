"""aiokafka produces, consumes and runs transactions on our broker as on Apache Kafka."""

import asyncio
import contextlib
import gc
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from tests.kit.brokers.clusters import Clusters
from tests.kit.brokers.judge import check_identities, check_nothing_is_open, identity_of
from tests.peers.aiokafka_steps import create_topic, send, transactional_producer, write

DEADLINE_S = 30
TXN_TIMEOUT_MS = 2_000
PARTITIONS = 3

# Errors of the next call: the fence itself, or AssertionError if the fence has already ended the sender task.
IS_DEAD = (ProducerFenced, AssertionError)


@pytest.fixture(autouse=True)
def garbage() -> Iterator[None]:
    """Collect the futures of fenced producers, which log an unretrieved exception when they are collected.

    If Python 3.11 collects them while it compiles code, the compilation fails with a SystemError.
    """
    yield
    gc.collect()


async def read(bootstrap: str, topic: str, isolation: str, until: str) -> list[str]:
    """Return the values of partition 0 from its beginning up to `until`."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
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


async def test_aiokafka_transforms_exactly_once_with_the_offsets_in_the_transaction(bootstrap: str, own: str) -> None:
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


async def commit(producer: AIOKafkaProducer, topic: str, value: str, partitions: int = 1) -> None:
    """One transaction with the same value in every partition."""
    async with producer.transaction():
        for partition in range(partitions):
            await send(producer, topic, [value], partition)


@contextlib.asynccontextmanager
async def watch(bootstrap: str, topic: str) -> AsyncIterator[Callable[[str], Awaitable[dict[int, list[str]]]]]:
    """Run a read_committed consumer; yield a function that waits until all partitions have shown a value."""
    values: dict[int, list[str]] = defaultdict(list)
    changes = asyncio.Condition()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, n) for n in range(PARTITIONS)])

    async def run() -> None:
        async with consumer:
            async for message in consumer:
                async with changes:
                    values[message.partition].append(message.value.decode())
                    changes.notify_all()

    async def seen(value: str) -> dict[int, list[str]]:
        async with asyncio.timeout(DEADLINE_S), changes:
            await changes.wait_for(lambda: sum(value in each for each in values.values()) == PARTITIONS)
        return values

    reader = asyncio.create_task(run())
    try:
        yield seen
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


@pytest.mark.parametrize("partition", [0, 1], ids=["where-it-wrote", "elsewhere"])
async def test_aiokafka_zombie_is_fenced_at_its_next_record_and_for_good(
    each_bootstrap: str, own: str, partition: int
) -> None:
    topic = await create_topic(each_bootstrap, f"{own}-topic", partitions=2)
    async with transactional_producer(each_bootstrap, f"{own}-id") as zombie:
        await zombie.begin_transaction()
        await send(zombie, topic, ["zombie"])
        async with transactional_producer(each_bootstrap, f"{own}-id") as heir:
            with pytest.raises(ProducerFenced):
                await send(zombie, topic, ["zombie"], partition)
            with pytest.raises(IS_DEAD):
                await zombie.abort_transaction()
            await commit(heir, topic, "heir", partitions=2)

    assert await read(each_bootstrap, topic, "read_committed", until="heir") == ["heir"]
    check_nothing_is_open(each_bootstrap, topic, 2)


async def test_aiokafka_takeover_of_an_open_transaction_shows_none_of_its_records(
    each_bootstrap: str, own: str
) -> None:
    topic = await create_topic(each_bootstrap, f"{own}-topic", PARTITIONS)
    async with (
        watch(each_bootstrap, topic) as seen,
        transactional_producer(each_bootstrap, f"{own}-before") as before,
        transactional_producer(each_bootstrap, f"{own}-id") as zombie,
    ):
        await commit(before, topic, "before", PARTITIONS)
        await seen("before")
        await zombie.begin_transaction()
        for partition in range(PARTITIONS):
            await send(zombie, topic, ["zombie 1", "zombie 2"], partition)
        async with transactional_producer(each_bootstrap, f"{own}-id") as heir:
            await commit(heir, topic, "heir", PARTITIONS)
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            await commit(heir, topic, "after", PARTITIONS)
        values = await seen("after")

    assert values == {n: ["before", "heir", "after"] for n in range(PARTITIONS)}
    check_nothing_is_open(each_bootstrap, topic, PARTITIONS)


async def test_aiokafka_producer_is_fenced_in_every_call_after_a_time_out_and_a_new_producer_continues(
    each_bootstrap: str, own: str
) -> None:
    """The protocol has no error for a time-out: the coordinator raises the epoch, which aiokafka takes for fencing."""
    topic = await create_topic(each_bootstrap, f"{own}-topic", partitions=2)
    steps: dict[str, Callable[[AIOKafkaProducer], Awaitable[None]]] = {
        "record": lambda slow: send(slow, topic, ["too late"]),
        "record-elsewhere": lambda slow: send(slow, topic, ["too late"], partition=1),
        "commit": lambda slow: slow.commit_transaction(),
        "abort": lambda slow: slow.abort_transaction(),
    }
    async with contextlib.AsyncExitStack() as running:
        slow = {}
        for step in steps:
            options = {"transaction_timeout_ms": TXN_TIMEOUT_MS}
            producer = transactional_producer(each_bootstrap, f"{own}-{step}", **options)
            slow[step] = await running.enter_async_context(producer)
        for producer in slow.values():
            await producer.begin_transaction()
            await send(producer, topic, ["late"])
        await write(each_bootstrap, topic, ["after"])
        # A reader can only get past the transactions after their abort.
        assert await read(each_bootstrap, topic, "read_committed", until="after") == ["after"]

        for step, run in steps.items():
            with pytest.raises(ProducerFenced):
                await run(slow[step])
            async with transactional_producer(each_bootstrap, f"{own}-{step}") as heir:
                await commit(heir, topic, step)
            with pytest.raises(IS_DEAD):
                await slow[step].abort_transaction()

    assert await read(each_bootstrap, topic, "read_committed", until="abort") == ["after", *steps]
    check_nothing_is_open(each_bootstrap, topic, 2)


async def test_aiokafka_instances_go_past_the_last_epoch_without_a_gap(each_late_bootstrap: str, own: str) -> None:
    """Under the old transaction protocol only InitProducerId moves the epoch: one step for each instance."""
    topic = await create_topic(each_late_bootstrap, f"{own}-topic")
    identities = []
    for n in range(6):
        async with transactional_producer(each_late_bootstrap, "late-aiokafka") as producer:
            identities.append(identity_of(each_late_bootstrap, "late-aiokafka"))
            await producer.begin_transaction()
            await send(producer, topic, [f"lost {n}"])
            await producer.abort_transaction()
            await commit(producer, topic, f"kept {n}")

    check_identities(identities, [32_764, 32_765, 32_766], [0, 1, 2])
    kept = await read(each_late_bootstrap, topic, "read_committed", until="kept 5")
    assert kept == [f"kept {n}" for n in range(6)]
    check_nothing_is_open(each_late_bootstrap, topic, 1)


@pytest.mark.parametrize(("cluster", "epochs"), [("late-tv2", [1, 3]), ("late-tv1", [0, 2])], ids=["tv2", "tv1"])
async def test_aiokafka_takeovers_past_the_last_epoch_show_no_record_of_a_zombie(
    clusters: Clusters, own: str, cluster: str, epochs: list[int]
) -> None:
    """A takeover of an open transaction costs two epochs: one to fence, one to begin.

    Fencing at 32766 already hands out the new producer id under transaction.version 2, with epoch 0. Zombies of the
    old producer id get INVALID_PRODUCER_ID_MAPPING, which aiokafka wraps into its unspecific error.
    """
    bootstrap = clusters.bootstrap(cluster)
    topic = await create_topic(bootstrap, f"{own}-topic")
    producers = []
    identities = []
    errors: list[type[BaseException]] = []
    async with contextlib.AsyncExitStack() as running:
        for n in range(4):
            producer = transactional_producer(bootstrap, "late-aiokafka-takeover")
            producers.append(await running.enter_async_context(producer))
            identities.append(identity_of(bootstrap, "late-aiokafka-takeover"))
            await commit(producer, topic, f"kept {n}")
            await producer.begin_transaction()
            await send(producer, topic, [f"lost {n}"])
        *zombies, last = producers
        for zombie in zombies:
            with pytest.raises(KafkaError) as error:
                await zombie.commit_transaction()
            errors.append(error.type)
        await last.abort_transaction()

    check_identities(identities, [32_764, 32_766], epochs)
    assert errors == [KafkaError, KafkaError, ProducerFenced]
    assert await read(bootstrap, topic, "read_committed", until="kept 3") == [f"kept {n}" for n in range(4)]
    check_nothing_is_open(bootstrap, topic, 1)


async def test_aiokafka_zombie_cannot_move_the_offsets_of_its_group(each_bootstrap: str, own: str) -> None:
    """aiokafka sends no generation with its offsets: only the transactional id fences."""
    source = await create_topic(each_bootstrap, f"{own}-source", partitions=2)
    target = await create_topic(each_bootstrap, f"{own}-target")
    for partition in range(2):
        await write(each_bootstrap, source, [f"{'ab'[partition]}{n}" for n in range(4)], partition)
    partitions = [TopicPartition(source, n) for n in range(2)]
    async with transactional_producer(each_bootstrap, f"{own}-transform") as zombie:
        await zombie.begin_transaction()
        await send(zombie, target, ["zombie"])
        await zombie.send_offsets_to_transaction(dict.fromkeys(partitions, 4), f"{own}-group")
        async with transactional_producer(each_bootstrap, f"{own}-transform"):
            with pytest.raises(ProducerFenced):
                await zombie.send_offsets_to_transaction(dict.fromkeys(partitions, 3), f"{own}-group")
            with pytest.raises(IS_DEAD):
                await zombie.commit_transaction()
    async with group_consumer(each_bootstrap, f"{own}-group", source) as consumer:
        assert [await consumer.committed(partition) for partition in partitions] == [None, None]
    await transform(each_bootstrap, own, source, target, 8, commit=True)

    await write(each_bootstrap, target, ["end"])
    *values, _ = await read(each_bootstrap, target, "read_committed", until="end")
    assert sorted(values) == [f"{letter}{n}" for letter in "AB" for n in range(4)]
