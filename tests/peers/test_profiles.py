"""Real clients under our broker's profiles, which Apache Kafka does not have."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.kit.brokers.clusters import OURS
from tests.kit.brokers.our_broker import our_broker
from tests.peers.aiokafka_steps import create_topic, transactional_producer, write

DEADLINE_S = 30
LOOK_S = 0.5
"""How long a test checks that a client still waits; a slow client passes this check too."""


@pytest.fixture
def drafted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.config.getoption("peer_broker", OURS) != OURS:
        pytest.skip("profiles are ours alone")
    with our_broker(tmp_path / "data", tmp_path / "stderr.log", "stuntbroker.profile=kip-447-draft") as bootstrap:
        yield bootstrap


@contextlib.asynccontextmanager
async def reader(bootstrap: str, group: str, place: TopicPartition) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        consumer.assign([place])
        yield consumer


async def begun(producer: AIOKafkaProducer, group: str, place: TopicPartition, offset: int) -> None:
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({place: offset}, group)


@pytest.mark.parametrize(("commits", "goes_on_at"), [(True, "7"), (False, "3")])
async def test_aiokafka_waits_for_a_pending_offset_and_continues_at_the_resulting_offset(
    drafted: str, own: str, commits: bool, goes_on_at: str
) -> None:
    """aiokafka uses OffsetFetch 3, which has no RequireStable; with Kafka, it would read from offset 3 immediately."""
    topic, group = await create_topic(drafted, f"{own}-topic"), f"{own}-group"
    place = TopicPartition(topic, 0)
    await write(drafted, topic, [str(n) for n in range(10)])
    async with reader(drafted, group, place) as consumer:
        await consumer.commit({place: 3})
    async with asyncio.timeout(DEADLINE_S), transactional_producer(drafted, f"{own}-id") as producer:
        await begun(producer, group, place, 7)
        async with reader(drafted, group, place) as consumer:
            reading = asyncio.ensure_future(consumer.getone())
            await asyncio.sleep(LOOK_S)
            assert not reading.done()
            await (producer.commit_transaction() if commits else producer.abort_transaction())

            assert (await reading).value.decode() == goes_on_at
