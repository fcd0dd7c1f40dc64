"""What the tests with aiokafka do again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic


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
