"""Two-phase commit (KIP-939) with a database: if the process ends at any step, both sides are committed, or neither."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from databases import connect, sqlite_file
from processes import STEPS, Payer, broker_at, crash, has_record, producer_of

import stuntbroker
from stuntbroker.client import (
    IllegalStateError,
    OperationTimedOutError,
    PreparedTxnState,
    State,
    TransactionalProducer,
    UnsupportedVersionError,
)
from stuntbroker.fixture.broker import Broker
from tests.kit.processes.postgres import postgres_server


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with broker_at(2) as broker:
        yield broker


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("start", "level", "kills"),
    [
        pytest.param(start, level, kills, id=f"{name}-{level}-{kills}")
        for name, start, level, kills in (
            ("sqlite", sqlite_file, 0, 30), ("sqlite", sqlite_file, 1, 30), ("sqlite", sqlite_file, 2, 30),
            ("postgres", postgres_server, 2, 100), ("postgres", postgres_server, 2, 1000),
        )
    ],
)  # fmt: skip
async def test_a_process_killed_at_any_step_leaves_database_and_topic_alike(
    tmp_path: Path, start: Callable[[Path], AbstractContextManager[str]], level: int, kills: int
) -> None:
    chance, number = random.Random(939), 1
    with start(tmp_path) as address, broker_at(level) as broker:
        database = connect(address)
        database.create_tables()
        with Payer(broker, address) as payer:
            for _ in range(kills):
                payments = chance.randrange(3)
                payer.pay_and_be_killed(number, payments, chance.choice(STEPS))
                number += payments + 1
        async with producer_of(broker) as last:
            await last.init_transactions(keep_prepared_txn=True)
            await last.complete_transaction(database.state())
        numbers = database.numbers()
        database.close()
        written = [int(value or b"") for value in broker.values("payments")]

    assert written == [number for number in numbers if has_record(number)]
    assert len(numbers) > kills / 3


@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize(("level", "records"), [(0, 1), (1, 1), (2, 0), (2, 1)])
async def test_a_stored_state_does_not_commit_the_transaction_after_its_own(
    level: int, records: int, is_prepared: bool
) -> None:
    with broker_at(level) as broker:
        first = producer_of(broker)
        await first.start()
        await first.init_transactions()
        await first.begin_transaction()
        for _ in range(records):
            await first.send("payments", b"decided")
        stored = await first.prepare_transaction()
        await first.complete_transaction(stored)
        await first.begin_transaction()
        await first.send_and_wait("payments", b"not decided")
        if is_prepared:
            await first.prepare_transaction()
        await crash(first)
        async with producer_of(broker) as second:
            await second.init_transactions(keep_prepared_txn=True)
            assert not await second.complete_transaction(stored)

        assert broker.values("payments") == [b"decided"] * records


async def test_a_block_does_not_abort_its_prepared_transaction(broker: Broker) -> None:
    async with producer_of(broker, "block") as producer:
        await producer.init_transactions()
        with pytest.raises(ConnectionError):
            async with producer.transaction():
                await producer.send("others", b"prepared in a block", partition=0)
                state = await producer.prepare_transaction()
                raise ConnectionError("the database did not say whether it has committed")
        assert producer.state is State.PREPARED_TRANSACTION
        assert await producer.complete_transaction(state)

        assert b"prepared in a block" in broker.values("others")


async def test_a_block_may_prepare_and_complete_its_transaction(broker: Broker) -> None:
    async with producer_of(broker, "whole") as producer:
        await producer.init_transactions()
        for completed in (b"committed by the block", b"completed in the block"):
            async with producer.transaction():
                await producer.send("others", completed, partition=0)
                state = await producer.prepare_transaction()
                if completed == b"completed in the block":
                    assert await producer.complete_transaction(state)
            assert producer.state is State.READY

        assert broker.values("others")[-2:] == [b"committed by the block", b"completed in the block"]


async def test_a_prepared_transaction_takes_nothing_more_and_waits_for_its_end(broker: Broker) -> None:
    async with producer_of(broker, "waits") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("others", b"prepared", partition=0)
        state = await producer.prepare_transaction()
        with pytest.raises(IllegalStateError):
            await producer.send("others", b"more", partition=0)
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()

        assert PreparedTxnState.parse(str(state)) == state
        assert not await producer.complete_transaction(PreparedTxnState(state.producer_id, state.producer_epoch + 1))
        assert producer.state is State.READY
        assert await producer.complete_transaction(state) is False, "there is nothing left to complete"

        assert b"prepared" not in broker.values("others")


async def test_a_prepared_transaction_can_be_recovered_repeatedly_until_it_is_committed(broker: Broker) -> None:
    first = producer_of(broker, "kept")
    await first.start()
    await first.init_transactions()
    await first.begin_transaction()
    await first.send("others", b"kept", partition=0)
    state = await first.prepare_transaction()
    await crash(first)
    for _ in range(3):
        second = producer_of(broker, "kept")
        await second.start()
        await second.init_transactions(keep_prepared_txn=True)
        assert second.state is State.PREPARED_TRANSACTION
        await crash(second)
    async with producer_of(broker, "kept") as last:
        await last.init_transactions(keep_prepared_txn=True)
        assert await last.complete_transaction(state)
        async with last.transaction():
            await last.send("others", b"next", partition=0)

    assert [value for value in broker.values("others") if value in (b"kept", b"next")] == [b"kept", b"next"]


async def test_prepare_needs_a_producer_for_two_phase_commit(broker: Broker) -> None:
    async with TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="plain") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="enable_2pc"):
            await producer.prepare_transaction()


async def test_a_broker_without_two_phase_commit_raises_unsupported_version() -> None:
    with stuntbroker.broker({"transaction.two.phase.commit.enable": False}) as plain:
        async with producer_of(plain) as producer:
            with pytest.raises(UnsupportedVersionError, match="InitProducerId 0-5, needed is version 6-6"):
                await producer.init_transactions(keep_prepared_txn=True)


@pytest.mark.parametrize("text", ["1", "1:", ":1", "a:1", "1:2:3", "-1:0", "1:40000"])
def test_a_text_that_is_no_prepared_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH"):
        PreparedTxnState.parse(text)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("is_prepared", [False, True])
async def test_a_send_that_fails_while_end_txn_is_in_flight_does_not_change_the_outcome(
    level: int, is_prepared: bool
) -> None:
    """A `send` waits for a topic that is never created, and times out while EndTxn is in flight."""
    with broker_at(level, **{"auto.create.topics.enable": False}) as broker:
        async with producer_of(broker, max_block_ms=500) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait("others", b"written")
            fault = await asyncio.to_thread(broker.faults.add, "EndTxn", hold=True, times=1)
            waiting = asyncio.create_task(producer.send("nope", b"never", partition=0))
            await asyncio.sleep(0)  # The `send` begins before the transaction's end.
            state = await producer.prepare_transaction() if is_prepared else None

            async def end() -> None:
                if state is not None:
                    assert await producer.complete_transaction(state)
                else:
                    await producer.commit_transaction()

            ending = asyncio.create_task(end())
            with pytest.raises(IllegalStateError):
                await waiting
            await asyncio.to_thread(fault.release)
            try:
                await ending
            except OperationTimedOutError:
                await end()
            async with producer.transaction():
                await producer.send("others", b"next")

        assert broker.values("others") == [b"written", b"next"]


async def test_a_block_accepts_a_commit_that_timed_out_in_it_and_succeeded_later(broker: Broker) -> None:
    async with producer_of(broker, "slow", max_block_ms=200) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_and_wait("others", b"slowly committed")
            fault = await asyncio.to_thread(broker.faults.add, "EndTxn", hold=True, times=1)
            with pytest.raises(OperationTimedOutError):
                await producer.commit_transaction()
            await asyncio.to_thread(fault.release)
            while producer.state is not State.READY:
                await asyncio.sleep(0)
        async with producer.transaction():
            await producer.send("others", b"and the next")

    assert broker.values("others")[-2:] == [b"slowly committed", b"and the next"]


async def test_a_block_with_a_completed_transaction_ends_normally_even_after_a_fatal_error() -> None:
    with broker_at(1) as broker:
        async with producer_of(broker) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("others", b"completed")
                state = await producer.prepare_transaction()
                await asyncio.to_thread(broker.faults.add, "InitProducerId", error="INVALID_PRODUCER_EPOCH", times=1)
                assert await producer.complete_transaction(state)
            assert producer.state is State.FATAL_ERROR

        assert broker.values("others") == [b"completed"]
