"""A `transaction()` block ends only its own transaction, and raises an error if another caller has aborted it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import pytest
from model_broker import ModelBroker

from stuntbroker.client import IllegalStateError, TransactionalProducer
from tests.kit.transactions.repeated import repeated

Ending = Callable[[TransactionalProducer], Any]


@asynccontextmanager
async def ready(max_block_ms: int = 10_000) -> AsyncIterator[tuple[TransactionalProducer, ModelBroker]]:
    with ModelBroker(2) as broker:
        async with TransactionalProducer(
            bootstrap_servers=str(broker.address), transactional_id="id", retry_backoff_ms=1, max_block_ms=max_block_ms
        ) as producer:
            await repeated(producer.init_transactions)
            yield producer, broker


def elsewhere(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run a coroutine in a task that was not created within a block."""
    return asyncio.get_running_loop().create_task(work, context=Context())


async def next_half(producer: TransactionalProducer) -> None:
    """Abort the transaction, begin the next one, and write a record in it."""
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait("t", b"half of the next")


async def whole(producer: TransactionalProducer, value: bytes) -> None:
    async with producer.transaction():
        await producer.send("t", value)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda producer: producer.stop(), "another task or thread has aborted the transaction, by stop()"),
        (lambda producer: producer.stop(leave_open=True), "not started, or closed"),
        (lambda producer: producer.abort_transaction(), "another task or thread has aborted the transaction"),
        (next_half, "another task or thread has aborted the transaction"),
    ],
    ids=["stop", "stop, left open", "abort", "abort and begin"],
)
async def test_a_block_whose_transaction_another_task_has_aborted_raises(end: Ending, says: str) -> None:
    async with ready() as (producer, broker):
        with pytest.raises(IllegalStateError) as raised:
            async with producer.transaction():
                await producer.send_and_wait("t", b"of the block")
                await elsewhere(end(producer))

        assert says in str(raised.value)
        assert broker.committed == []


@pytest.mark.parametrize("raises", [False, True])
async def test_a_block_leaves_the_next_transaction_of_another_task_alone(raises: bool) -> None:
    async with ready() as (producer, broker):
        with pytest.raises(ValueError if raises else IllegalStateError):
            async with producer.transaction():
                await elsewhere(next_half(producer))
                if raises:
                    raise ValueError

        await producer.send("t", b"the rest")
        await producer.commit_transaction()
        assert broker.committed == [b"half of the next", b"the rest"]


@pytest.mark.parametrize("is_next", [False, True], ids=["nothing follows", "another one follows"])
async def test_a_block_whose_transaction_another_task_has_committed_ends_silently(is_next: bool) -> None:
    async with ready() as (producer, broker):
        async with producer.transaction():
            await producer.send("t", b"committed")
            await elsewhere(producer.commit_transaction())
            if is_next:
                await elsewhere(whole(producer, b"next"))

        assert broker.committed == [b"committed", *([b"next"] if is_next else [])]


ENDINGS: dict[str, Ending] = {
    "abort": lambda producer: producer.abort_transaction(),
    "abort, with a time limit": lambda producer: asyncio.wait_for(producer.abort_transaction(), 20),
    "abort, shielded": lambda producer: asyncio.shield(producer.abort_transaction()),
    "abort, in a task": lambda producer: asyncio.create_task(producer.abort_transaction()),
    "stop": lambda producer: producer.stop(),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_a_block_may_abort_its_transaction_itself(how: str) -> None:
    async with ready() as (producer, broker):
        async with producer.transaction():
            await producer.send_and_wait("t", b"aborted")
            await ENDINGS[how](producer)
            if how != "stop":
                await elsewhere(whole(producer, b"of another task"))

        assert b"aborted" not in broker.committed


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_block_ends_every_transaction_that_was_begun_within_it(is_commit: bool) -> None:
    async with ready() as (producer, broker):
        async with producer.transaction():
            await producer.send_and_wait("t", b"first")
            await (producer.commit_transaction() if is_commit else producer.abort_transaction())
            await producer.begin_transaction()
            await producer.send("t", b"second")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send("t", b"third")

        assert broker.committed == [*([b"first"] if is_commit else []), b"second", b"third"]
        with pytest.raises(ValueError, match="of the block"):
            async with producer.transaction():
                await producer.commit_transaction()
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"aborted")
                raise ValueError("of the block")
        await whole(producer, b"fourth")
        assert broker.committed[-2:] == [b"third", b"fourth"]


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
