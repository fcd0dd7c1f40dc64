"""A producer of ours that is ready, and what a read_committed consumer of aiokafka's reads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from stuntbroker.client import TransactionalProducer
from tests.peers.aiokafka_steps import write

DEADLINE_S = 60
BEHIND = "behind"
"""Values that begin so are not a test's own."""


@contextlib.asynccontextmanager
async def producing(bootstrap: str, transactional_id: str, **options: Any) -> AsyncIterator[TransactionalProducer]:
    """A producer that may begin its first transaction."""
    producer = TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **options)
    async with asyncio.timeout(DEADLINE_S), producer:
        await producer.init_transactions()
        yield producer


async def records(bootstrap: str, topic: str, partition: int = 0, until: str = "end") -> list[ConsumerRecord[Any, Any]]:
    """The committed records of a partition, before a record that this writes."""
    await write(bootstrap, topic, [until], partition)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, partition)])
    read: list[ConsumerRecord[Any, Any]] = []
    async with asyncio.timeout(DEADLINE_S), consumer:
        while not read or read[-1].value != until.encode():
            read.append(await consumer.getone())
    return read[:-1]


async def committed(bootstrap: str, topic: str, partition: int = 0) -> list[str]:
    values = [(record.value or b"").decode() for record in await records(bootstrap, topic, partition)]
    return [value for value in values if not value.startswith(BEHIND)]
