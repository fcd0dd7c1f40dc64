"""An application with mistakes that mypy must find by the client's types. This file is only type-checked, never run.

mypy also reports a mistake that it no longer finds, as an unused `ignore` comment.
"""

from __future__ import annotations

from stuntbroker.client import Connections, PreparedTxnState, TransactionalConsumer, TransactionalProducer, blocking


async def right(bootstrap: str) -> None:
    async with (
        Connections(bootstrap_servers=bootstrap, request_timeout_ms=1_000) as connections,
        TransactionalProducer(connections=connections, transactional_id="id", acks="all", linger_ms=5) as producer,
        TransactionalConsumer("orders", bootstrap_servers=bootstrap, group_id="billing") as consumer,
    ):
        await producer.init_transactions()
        batch = await consumer.getmany(timeout_ms=100)
        async with producer.transaction():
            await producer.send("bills", b"value", headers=[("name", None)])
            await producer.send_offsets_to_transaction(consumer.next_offsets(batch), consumer.group_metadata())
            offset: int = (await producer.send_and_wait("bills", b"last")).offset
            assert offset >= 0
        state: PreparedTxnState = await producer.prepare_transaction()
        assert await producer.complete_transaction(str(state))


async def wrong(bootstrap: str, consumer: TransactionalConsumer, producer: TransactionalProducer) -> None:
    TransactionalProducer(transactional_id="id", linger=3)  # type: ignore[call-arg]
    TransactionalProducer(transactional_id="id", acks=1)  # type: ignore[arg-type]
    TransactionalProducer(bootstrap_servers=bootstrap)  # type: ignore[call-arg]
    Connections(bootstrap=bootstrap)  # type: ignore[call-arg]
    async with consumer as started:
        await started.getmany(timeout_ms="1")  # type: ignore[arg-type]
        await started.get_many()  # type: ignore[attr-defined]
        await started.seek(next(iter(started.assignment())), 0)  # type: ignore[misc, func-returns-value]
        assert (await started.getone()).offsets  # type: ignore[attr-defined]
    TransactionalConsumer("orders", group_id="billing", fetch_max=1)  # type: ignore[call-arg]
    await producer.send("bills", b"value", partitions=3)  # type: ignore[call-arg]
    (await producer.send_and_wait("bills", b"value")).offset.upper()  # type: ignore[attr-defined]
    await producer.complete_transaction(7)  # type: ignore[arg-type]
    (await producer.complete_transaction("1:0")).upper()  # type: ignore[attr-defined]


def wrong_without_asyncio(bootstrap: str) -> None:
    blocking.TransactionalConsumer("orders", group_id="billing", fetch_max=1)  # type: ignore[call-arg]
    blocking.Connections(bootstrap=bootstrap)  # type: ignore[call-arg]
    blocking.TransactionalProducer(transactional_id="id", linger=3)  # type: ignore[call-arg]
    with blocking.TransactionalProducer(transactional_id="id") as producer:
        producer.send(7, b"value")  # type: ignore[arg-type]
        producer.send("bills", b"value").result("soon")  # type: ignore[arg-type]
