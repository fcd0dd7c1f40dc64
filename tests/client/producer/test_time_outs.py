"""After a transaction time-out (KIP-588, KIP-890), some producers can continue after an abort, and others are fenced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import stuntbroker
from stuntbroker.client import (
    CommitFailedError,
    ProduceFailedError,
    ProducerFencedError,
    State,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.fixture.broker import Broker

TIMEOUT_MS = 60_000
SWEEP_MS = 10_000


async def send(producer: TransactionalProducer) -> None:
    with pytest.raises(ProduceFailedError):
        await producer.send_and_wait("t", b"late", partition=0)
    await producer.abort_transaction()


async def send_elsewhere(producer: TransactionalProducer) -> None:
    with pytest.raises(ProduceFailedError):
        await producer.send_and_wait("t", b"late", partition=1)
    await producer.abort_transaction()


async def send_offsets(producer: TransactionalProducer) -> None:
    with pytest.raises(TransactionAbortableError):
        await producer.send_offsets_to_transaction({("t", 0): 1}, "group")
    await producer.abort_transaction()


async def commit(producer: TransactionalProducer) -> None:
    with pytest.raises(CommitFailedError):
        await producer.commit_transaction()
    await producer.abort_transaction()


async def abort(producer: TransactionalProducer) -> None:
    await producer.abort_transaction()


STEPS: list[Callable[[TransactionalProducer], Awaitable[None]]] = [send, send_elsewhere, send_offsets, commit, abort]


@asynccontextmanager
async def timed_out(broker: Broker, name: str) -> AsyncIterator[TransactionalProducer]:
    """Yield a producer whose transaction the coordinator has aborted by its time-out."""
    async with TransactionalProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, retry_backoff_ms=5
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"timed out", partition=0)
        broker.clock.advance(ms=TIMEOUT_MS + SWEEP_MS + 1)
        yield producer


@pytest.mark.parametrize(("profile", "level"), [("kafka", 2), ("kip-588", 2), ("kip-588", 1), ("kip-588", 0)])
async def test_a_producer_continues_after_the_coordinator_timed_out_its_transaction(profile: str, level: int) -> None:
    properties = {"stuntbroker.profile": profile, "transaction.version": level}
    with stuntbroker.broker(properties, topics={"t": 2}) as broker:
        for step in STEPS:
            async with timed_out(broker, step.__name__) as producer:
                await step(producer)
                assert producer.state is State.READY
                async with producer.transaction():
                    await producer.send("t", step.__name__.encode(), partition=0)
        broker.assert_committed("t", [step.__name__.encode() for step in STEPS])


@pytest.mark.parametrize("level", [0, 1])
async def test_a_transaction_time_out_is_fatal_where_it_cannot_be_distinguished_from_a_fence(level: int) -> None:
    with stuntbroker.broker({"transaction.version": level}, topics={"t": 2}) as broker:
        for step in STEPS:
            async with timed_out(broker, step.__name__) as producer:
                with pytest.raises(ProducerFencedError):
                    await step(producer)
                assert producer.state is State.FATAL_ERROR


@pytest.mark.parametrize("profile", ["kafka", "kip-588"])
@pytest.mark.parametrize("level", [0, 1, 2])
async def test_a_fence_ends_the_producer_under_every_profile(profile: str, level: int) -> None:
    properties = {"stuntbroker.profile": profile, "transaction.version": level}
    with stuntbroker.broker(properties, topics={"t": 2}) as broker:
        for step in STEPS:
            async with (
                timed_out(broker, step.__name__) as old,
                TransactionalProducer(
                    bootstrap_servers=broker.bootstrap, transactional_id=step.__name__, retry_backoff_ms=5
                ) as new,
            ):
                await new.init_transactions()
                with pytest.raises(ProducerFencedError):
                    await step(old)
                async with new.transaction():
                    await new.send("t", step.__name__.encode(), partition=0)
        broker.assert_committed("t", [step.__name__.encode() for step in STEPS])
