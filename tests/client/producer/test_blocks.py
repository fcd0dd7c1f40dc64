"""A `transaction()` block ends its own transaction only, and reports it if someone else has aborted that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from model_broker import ModelBroker

from stuntbroker.client import IllegalStateError, TransactionalProducer
from tests.kit.transactions.repeated import repeated

Ending = Callable[[TransactionalProducer], Awaitable[object]]


@asynccontextmanager
async def ready(max_block_ms: int = 10_000) -> AsyncIterator[tuple[TransactionalProducer, ModelBroker]]:
    with ModelBroker(2) as broker:
        async with TransactionalProducer(
            bootstrap_servers=str(broker.address), transactional_id="id", retry_backoff_ms=1, max_block_ms=max_block_ms
        ) as producer:
            await repeated(producer.init_transactions)
            yield producer, broker


async def next_half(producer: TransactionalProducer) -> None:
    """End the transaction, and be in the middle of the next one."""
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait("t", b"half of the next")


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda producer: producer.stop(), "another task or thread has aborted it, by stop()"),
        (lambda producer: producer.stop(leave_open=True), "not started, or closed"),
        (lambda producer: producer.abort_transaction(), "another task or thread has aborted it"),
        (next_half, "another task or thread has aborted it"),
    ],
    ids=["stop", "stop, left open", "abort", "abort and begin"],
)
async def test_a_block_whose_transaction_another_task_has_aborted_raises(end: Ending, says: str) -> None:
    async with ready() as (producer, broker):
        with pytest.raises(IllegalStateError) as raised:
            async with producer.transaction():
                await producer.send_and_wait("t", b"of the block")
                await asyncio.ensure_future(end(producer))

        assert says in str(raised.value)
        assert broker.committed == []


@pytest.mark.parametrize("raises", [False, True])
async def test_a_block_leaves_the_next_transaction_of_another_task_alone(raises: bool) -> None:
    async with ready() as (producer, broker):
        with pytest.raises(ValueError if raises else IllegalStateError):
            async with producer.transaction():
                await asyncio.create_task(next_half(producer))
                if raises:
                    raise ValueError

        await producer.send("t", b"the rest")
        await producer.commit_transaction()
        assert broker.committed == [b"half of the next", b"the rest"]


async def test_a_block_whose_transaction_another_task_has_committed_ends_silently() -> None:
    async with ready() as (producer, broker):
        async with producer.transaction():
            await producer.send("t", b"committed")
            await asyncio.create_task(producer.commit_transaction())

        assert broker.committed == [b"committed"]


async def test_a_block_may_end_its_transaction_itself() -> None:
    async with ready() as (producer, broker):
        async with producer.transaction():
            await producer.send_and_wait("t", b"aborted")
            await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"committed")
            await producer.commit_transaction()

        assert broker.committed == [b"committed"]


async def test_a_record_that_waits_for_its_topic_does_not_fail_the_next_transaction() -> None:
    async with ready(max_block_ms=300) as (producer, broker):
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"aborted")
        waiting = asyncio.create_task(producer.send("unknown", b"late"))
        await asyncio.sleep(0)
        await producer.abort_transaction()

        await producer.begin_transaction()
        await producer.send_and_wait("t", b"next")
        with pytest.raises(IllegalStateError, match="ended meanwhile"):
            await waiting
        await producer.commit_transaction()

        assert broker.committed == [b"next"]
