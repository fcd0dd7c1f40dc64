"""Our blocking producer and consumer, against our broker and against Apache Kafka."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiokafka import TopicPartition

from stuntbroker.client import CommitFailedError, TransactionAbortableError
from stuntbroker.client.blocking import TransactionalConsumer, TransactionalProducer
from tests.peers.aiokafka_steps import create_topic, write
from tests.peers.client.committed import committed

RECORDS_OF_A_PARTITION = 60


def copy_until(bootstrap: str, name: str, source: str, target: str, transactional_id: str, values: int) -> int:
    """Copy records from topic to topic until the group has committed them all. Return how many transactions failed."""
    failed = 0
    partitions = [TopicPartition(source, partition) for partition in range(2)]
    with (
        TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
        TransactionalConsumer(source, bootstrap_servers=bootstrap, group_id=name) as consumer,
    ):
        producer.init_transactions()
        while sum(consumer.committed(partition) or 0 for partition in partitions) < values:
            batch = consumer.getmany(timeout_ms=100, max_records=7)
            if not batch:
                continue
            try:
                with producer.transaction():
                    for messages in batch.values():
                        for message in messages:
                            producer.send(target, message.value, partition=0)
                    producer.send_offsets_to_transaction(consumer.next_offsets(batch), consumer.group_metadata())
            except (TransactionAbortableError, CommitFailedError):
                failed += 1
                consumer.reset_to_committed()
    return failed


def test_threads_of_a_group_copy_every_record_once(bootstrap: str, own: str) -> None:
    async def prepare() -> tuple[str, str]:
        source = await create_topic(bootstrap, f"{own}-in", partitions=2)
        for partition in range(2):
            await write(bootstrap, source, [f"{partition}-{n}" for n in range(RECORDS_OF_A_PARTITION)], partition)
        return source, await create_topic(bootstrap, f"{own}-out")

    source, target = asyncio.run(prepare())
    values = 2 * RECORDS_OF_A_PARTITION

    with ThreadPoolExecutor(2) as pool:
        ends = [
            pool.submit(copy_until, bootstrap, own, source, target, f"{own}-{thread}", values) for thread in range(2)
        ]
        for end in ends:
            end.result(timeout=120)

    copied = asyncio.run(committed(bootstrap, target))
    assert sorted(copied) == sorted(f"{partition}-{n}" for partition in range(2) for n in range(RECORDS_OF_A_PARTITION))


def test_a_blocking_consumer_assigns_seeks_pauses_and_resumes(bootstrap: str, own: str) -> None:
    async def prepare() -> str:
        topic = await create_topic(bootstrap, own, partitions=2)
        await write(bootstrap, topic, ["a", "b", "c"], 0)
        return topic

    topic = asyncio.run(prepare())
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with TransactionalConsumer(bootstrap_servers=bootstrap, group_id=own) as consumer:
        consumer.assign([first, second])
        assert consumer.assignment() == {first, second}
        assert topic in consumer.topics()
        assert consumer.beginning_offsets([first]) == {first: 0}
        assert consumer.end_offsets([first, second]) == {first: 3, second: 0}
        assert consumer.partitions_for_topic(topic) == {0, 1}
        consumer.seek(first, 2)
        assert consumer.getone().value == b"c"
        assert consumer.position(first) == 3
        consumer.seek_to_beginning(first)
        assert next(iter(consumer)).value == b"a"
        consumer.pause(first)
        assert consumer.paused() == {first}
        assert consumer.getmany(timeout_ms=50) == {}
        consumer.resume(first)
        consumer.seek_to_end(first)
        assert consumer.position(first) == 3
        assert consumer.offsets_for_times({first: 0})[first].offset == 0
        assert consumer.committed(first) is None
        consumer.reset_to_committed()
        assert consumer.getone().value == b"a"
