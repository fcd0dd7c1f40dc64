"""Our transactional producer and consumer, against our broker and against Apache Kafka, at both transaction versions."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition

from stuntbroker.client import (
    ApplicationRecoverableError,
    CommitFailedError,
    FailureType,
    GroupMetadata,
    ProduceFailedError,
    ProducerFencedError,
    State,
    TransactionAbortableError,
    TransactionalConsumer,
    TransactionalProducer,
)
from stuntbroker.protocol.batches.records import build_batch
from tests.kit.brokers.clusters import Clusters
from tests.kit.brokers.judge import check_nothing_is_open, identity_of
from tests.peers.aiokafka_steps import create_topic, write
from tests.peers.client.committed import BEHIND, committed, producing, records

TIMEOUT_MS = 1_500
LEVELS = ["tv2", "tv1"]
_numbers = itertools.count()


async def commit(producer: TransactionalProducer, topic: str, *values: str, partition: int = 0) -> None:
    async with producer.transaction():
        for value in values:
            await producer.send(topic, value.encode(), partition=partition)


async def until_aborted(bootstrap: str, topic: str) -> None:
    """Wait until the coordinator has aborted what is open: then a reader gets past it."""
    await records(bootstrap, topic, until=f"{BEHIND} {next(_numbers)}")


async def test_a_commit_shows_its_records_and_an_abort_shows_none(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own)
    async with producing(each_bootstrap, own) as producer:
        await commit(producer, topic, "a", "b")
        await producer.begin_transaction()
        record = await producer.send(topic, b"aborted", partition=0)
        await producer.flush()
        await producer.abort_transaction()
        assert (await record).offset > 1
        await commit(producer, topic, "c")

    assert await committed(each_bootstrap, topic) == ["a", "b", "c"]
    check_nothing_is_open(each_bootstrap, topic, 1)


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_are_stored_unchanged_at_the_offsets_of_their_futures(
    bootstrap: str, own: str, compression: str | None
) -> None:
    topic = await create_topic(bootstrap, own, partitions=2)
    headers = [("h", b"1"), ("h", None)]
    async with producing(bootstrap, own, compression_type=compression, max_batch_size=500) as producer:
        async with producer.transaction():
            sent = [
                await producer.send(
                    topic, b"%d" % n * 20, key=b"%d" % (n % 7), timestamp_ms=1_700_000_000_000 + n, headers=headers
                )
                for n in range(200)
            ]
        places = [await future for future in sent]

    read = {
        (record.partition, record.offset): record
        for partition in range(2)
        for record in await records(bootstrap, topic, partition)
    }
    assert len(read) == 200
    for n, place in enumerate(places):
        record = read[place.partition, place.offset]
        assert (record.key, record.value) == (b"%d" % (n % 7), b"%d" % n * 20)
        assert record.timestamp == place.timestamp == 1_700_000_000_000 + n
        assert list(record.headers) == headers
    assert {place.partition for place in places} == {0, 1}


@pytest.mark.parametrize("level", LEVELS)
async def test_every_transaction_bumps_the_epoch_under_transaction_version_2_only(
    clusters: Clusters, own: str, level: str
) -> None:
    bootstrap = clusters.bootstrap(level)
    topic = await create_topic(bootstrap, own)
    async with producing(bootstrap, own) as producer:
        before = identity_of(bootstrap, own)
        for n in range(5):
            await commit(producer, topic, str(n))
        after = identity_of(bootstrap, own)

    assert after[0] == before[0]
    assert after[1] - before[1] == (5 if level == "tv2" else 0)
    assert await committed(bootstrap, topic) == [str(n) for n in range(5)]


async def test_a_producer_goes_past_the_last_epoch_without_a_gap(each_late_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_late_bootstrap, own)
    identities = []
    for n in range(4):
        async with producing(each_late_bootstrap, "late-own") as producer:
            identities.append(identity_of(each_late_bootstrap, "late-own"))
            await commit(producer, topic, f"{n} a")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"aborted", partition=0)
            await producer.abort_transaction()
            await commit(producer, topic, f"{n} b")

    assert await committed(each_late_bootstrap, topic) == [f"{n} {letter}" for n in range(4) for letter in "ab"]
    assert len({producer_id for producer_id, _ in identities}) == 2
    check_nothing_is_open(each_late_bootstrap, topic, 1)


async def test_a_new_instance_fences_the_old_instance_in_every_call(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own)

    async def send(old: TransactionalProducer) -> None:
        with pytest.raises(ProduceFailedError) as failed:
            await old.send_and_wait(topic, b"fenced", partition=0)
        assert failed.value.failure_type is FailureType.TRANSACTION_FAILED
        with pytest.raises(TransactionAbortableError):
            await old.send(topic, b"fenced")
        await old.abort_transaction()

    async def offsets(old: TransactionalProducer) -> None:
        try:
            await old.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, f"{own}-group")
        except TransactionAbortableError:
            await old.abort_transaction()

    steps: dict[str, Callable[[TransactionalProducer], Any]] = {
        "send": send,
        "offsets": offsets,
        "commit": lambda old: old.commit_transaction(),
        "abort": lambda old: old.abort_transaction(),
    }
    for name, step in steps.items():
        async with producing(each_bootstrap, f"{own}-{name}") as old:
            await old.begin_transaction()
            await old.send_and_wait(topic, b"old", partition=0)
            async with producing(each_bootstrap, f"{own}-{name}") as new:
                with pytest.raises(ProducerFencedError):
                    await step(old)
                assert old.state is State.FATAL_ERROR
                await commit(new, topic, name)

    assert await committed(each_bootstrap, topic) == list(steps)
    check_nothing_is_open(each_bootstrap, topic, 1)


async def test_after_a_time_out_the_same_producer_continues_under_transaction_version_2(
    clusters: Clusters, own: str
) -> None:
    """KIP-890: the abort is answered with the next epoch. A commit is refused, and nothing of it is committed."""
    bootstrap = clusters.bootstrap("tv2")
    topic = await create_topic(bootstrap, own, partitions=2)
    async with producing(bootstrap, own, transaction_timeout_ms=TIMEOUT_MS) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"timed out", partition=0)
        await until_aborted(bootstrap, topic)
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await commit(producer, topic, "after a commit")

        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"timed out", partition=0)
        await until_aborted(bootstrap, topic)
        with pytest.raises(ProduceFailedError):
            await producer.send_and_wait(topic, b"late", partition=1)
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await commit(producer, topic, "after a record")

        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"timed out", partition=0)
        await until_aborted(bootstrap, topic)
        with pytest.raises(TransactionAbortableError):
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, f"{own}-group")
        await producer.abort_transaction()
        await commit(producer, topic, "after offsets")

        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"timed out", partition=0)
        await until_aborted(bootstrap, topic)
        await producer.abort_transaction()
        await commit(producer, topic, "after an abort")

    expected = ["after a commit", "after a record", "after offsets", "after an abort"]
    assert await committed(bootstrap, topic) == expected
    check_nothing_is_open(bootstrap, topic, 2)


async def test_after_a_time_out_a_new_producer_continues_under_transaction_version_1(
    clusters: Clusters, own: str
) -> None:
    """Nothing distinguishes a time-out from a fence there: the error says that a new producer can go on."""
    bootstrap = clusters.bootstrap("tv1")
    topic = await create_topic(bootstrap, own)
    async with producing(bootstrap, own, transaction_timeout_ms=TIMEOUT_MS) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"timed out", partition=0)
        await until_aborted(bootstrap, topic)
        with pytest.raises(ApplicationRecoverableError):
            await producer.commit_transaction()
    async with producing(bootstrap, own) as producer:
        await commit(producer, topic, "next")

    assert await committed(bootstrap, topic) == ["next"]


async def test_a_record_that_is_refused_costs_its_transaction_and_not_the_producer(
    each_bootstrap: str, own: str
) -> None:
    topic = await create_topic(each_bootstrap, own)
    async with producing(each_bootstrap, own, max_request_size=4 << 20) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"fits", partition=0)
        with pytest.raises(ProduceFailedError) as failed:
            await producer.send_and_wait(topic, b"x" * (2 << 20), partition=0)
        assert failed.value.failure_type is FailureType.MESSAGE_REJECTED
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await commit(producer, topic, "next")

    assert await committed(each_bootstrap, topic) == ["next"]


async def test_batches_that_are_too_large_for_the_topic_are_split(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own)
    values = [str(n) * 1000 for n in range(400)]
    async with producing(each_bootstrap, own, max_batch_size=3 << 20, max_request_size=4 << 20) as producer:
        async with producer.transaction():
            sent = [await producer.send(topic, value.encode(), partition=0) for value in values]
        places = [await future for future in sent]

    assert await committed(each_bootstrap, topic) == values
    assert [place.offset for place in places] == list(range(400))


async def test_offsets_and_records_are_committed_together_or_not_at_all(each_bootstrap: str, own: str) -> None:
    source = await create_topic(each_bootstrap, f"{own}-in", partitions=2)
    target = await create_topic(each_bootstrap, f"{own}-out")
    for partition in range(2):
        await write(each_bootstrap, source, [f"{partition}-{n}" for n in range(20)], partition)
    transactions = 0
    async with (
        producing(each_bootstrap, own) as producer,
        TransactionalConsumer(source, bootstrap_servers=each_bootstrap, group_id=own) as consumer,
    ):
        done = 0
        while done < 40:
            batch = await consumer.getmany(timeout_ms=200, max_records=7)
            if not batch:
                continue
            transactions += 1
            await producer.begin_transaction()
            for messages in batch.values():
                for message in messages:
                    await producer.send(target, message.value, partition=0)
            await producer.send_offsets_to_transaction(consumer.next_offsets(batch), consumer.group_metadata())
            if transactions % 2:
                await producer.abort_transaction()
                await consumer.reset_to_committed()
            else:
                await producer.commit_transaction()
                done += sum(len(messages) for messages in batch.values())
        offsets = [await consumer.committed(TopicPartition(source, partition)) for partition in range(2)]

    assert sorted(await committed(each_bootstrap, target)) == sorted(f"{p}-{n}" for p in range(2) for n in range(20))
    assert offsets == [20, 20]


async def test_offsets_of_a_former_generation_are_refused_and_the_producer_continues(
    each_bootstrap: str, own: str
) -> None:
    """KIP-447: the group's coordinator fences by generation and member. It costs the transaction, not the producer."""
    source = await create_topic(each_bootstrap, f"{own}-in")
    target = await create_topic(each_bootstrap, f"{own}-out")
    await write(each_bootstrap, source, ["a"])
    async with (
        producing(each_bootstrap, own) as producer,
        TransactionalConsumer(source, bootstrap_servers=each_bootstrap, group_id=own) as consumer,
    ):
        await consumer.getone()
        member = consumer.group_metadata()
        assert member.group_id == own and member.generation_id > 0 and member.member_id
        for stale in (
            member._replace(generation_id=member.generation_id + 7),
            member._replace(member_id="somebody"),
        ):
            await producer.begin_transaction()
            await producer.send(target, b"stale", partition=0)
            with pytest.raises(TransactionAbortableError):
                await producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, stale)
            with pytest.raises(CommitFailedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(target, b"current", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, consumer.group_metadata())
        assert await consumer.committed(TopicPartition(source, 0)) == 1

    assert await committed(each_bootstrap, target) == ["current"]


async def test_a_consumer_waits_for_offsets_of_an_open_transaction(each_bootstrap: str, own: str) -> None:
    source = await create_topic(each_bootstrap, f"{own}-in")
    where = TopicPartition(source, 0)
    await write(each_bootstrap, source, ["a", "b"])
    async with (
        producing(each_bootstrap, own) as producer,
        TransactionalConsumer(bootstrap_servers=each_bootstrap, group_id=own) as consumer,
    ):
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: 1}, GroupMetadata(own))
        consumer.assign([where])  # Only now: it looks for its position at once.
        asking = asyncio.create_task(consumer.committed(where))
        finished, _ = await asyncio.wait({asking}, timeout=0.3)
        assert not finished
        await producer.commit_transaction()

        assert await asking == 1
        assert (await consumer.getone()).value == b"b"


async def test_a_new_instance_aborts_the_open_transaction_of_its_predecessor(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own)
    async with producing(each_bootstrap, own) as dead:
        await dead.begin_transaction()
        await dead.send_and_wait(topic, b"left", partition=0)
        async with producing(each_bootstrap, own) as heir:
            await commit(heir, topic, "heir")
            assert await committed(each_bootstrap, topic) == ["heir"]


async def test_a_topic_that_does_not_exist_costs_the_transaction_and_not_the_producer(
    each_bootstrap: str, own: str
) -> None:
    topic = await create_topic(each_bootstrap, own)
    async with producing(each_bootstrap, own, max_block_ms=5_000) as producer:
        await producer.begin_transaction()
        with pytest.raises(ProduceFailedError):
            await producer.send_and_wait("no topic has such a name", b"value")
        await producer.abort_transaction()
        await commit(producer, topic, "next")

    assert await committed(each_bootstrap, topic) == ["next"]


async def test_many_records_of_one_transaction_are_in_order_in_each_partition(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own, partitions=3)
    async with (
        producing(each_bootstrap, own, max_batch_size=2000, buffer_memory=100_000) as producer,
        producer.transaction(),
    ):
        for n in range(20_000):
            await producer.send(topic, b"%d" % n, partition=n % 3)

    for partition in range(3):
        assert await committed(each_bootstrap, topic, partition) == [str(n) for n in range(partition, 20_000, 3)]


async def test_encoded_batches_of_producers_that_join_are_one_transaction(each_bootstrap: str, own: str) -> None:
    topic = await create_topic(each_bootstrap, own, partitions=2)
    async with producing(each_bootstrap, own) as first:
        await first.begin_transaction()
        for number in range(7):
            batch = build_batch([(None, b"%d-%d" % (number, n)) for n in range(3)], 1_700_000_000_000)
            sent = await first.send_batch(batch, topic, partition=0)
        await first.flush()
        assert (await sent).offset == 18
        identity = first.share_transaction()
        for end in ("flush", "commit_transaction"):
            async with TransactionalProducer(bootstrap_servers=each_bootstrap, transactional_id=own) as other:
                await other.join_transaction(str(identity))
                if end == "flush":
                    await other.send(topic, b"of the other", partition=1)
                await getattr(other, end)()

    assert await committed(each_bootstrap, topic) == [f"{number}-{n}" for number in range(7) for n in range(3)]
    assert await committed(each_bootstrap, topic, 1) == ["of the other"]
    check_nothing_is_open(each_bootstrap, topic, 2)
