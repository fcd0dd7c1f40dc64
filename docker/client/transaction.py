"""Commit one transaction and read its records back: python transaction.py HOST:PORT."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(bootstrap: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments-1")
    await producer.start()
    async with producer.transaction():
        for number in range(3):
            await producer.send_and_wait("payments", f"payment {number}".encode())
    await producer.stop()

    consumer = AIOKafkaConsumer(
        "payments", bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    for _ in range(3):
        record = await consumer.getone()
        print(f"offset {record.offset}: {record.value.decode()}")
    await consumer.stop()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
