"""After random transactions with a database, crashes and faults, the committed records match the database's decisions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from processes import broker_at, crash, producer_of

from stuntbroker.client import (
    FatalError,
    PreparedTxnState,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.fixture.broker import Broker
from tests.kit.transactions.repeated import repeated

SEEDS = 12
TRANSACTIONS = 10
NOTHING = PreparedTxnState(-1, -1)
RETRIED: dict[str, tuple[str, ...]] = {
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "InitProducerId": ("COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": ("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"),
    "Produce": ("NOT_LEADER_OR_FOLLOWER",),
    "AddOffsetsToTxn": ("COORDINATOR_LOAD_IN_PROGRESS",),
    "TxnOffsetCommit": ("COORDINATOR_LOAD_IN_PROGRESS",),
    "EndTxn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
}
"""Request -> retriable errors that brokers return for it."""


class Crash(Exception):
    """A simulated end of the process."""


class World:
    """An application with a database, under crashes and faults that one seed determines."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = broker
        self.name = f"two-phase-{seed}"
        self.decided: list[tuple[int, bytes]] = []
        """(partition, value) of the records that the database has committed."""
        self.state = NOTHING
        """The prepared state that the database has stored last."""
        self.done = 0
        self.crashes = 0

    def _maybe_crash(self) -> None:
        if self.chance.random() < 0.12:
            raise Crash

    def _maybe_fault(self) -> None:
        if self.chance.random() > 0.5:
            return
        api = self.chance.choice(list(RETRIED))
        rule: dict[str, Any] = self.chance.choice(
            [{"lose_response": True}, {"close": True}, {"duplicate": True}, {"error": self.chance.choice(RETRIED[api])}]
        )
        self.broker.faults.add(api, times=self.chance.randrange(1, 3), **rule)

    async def run(self) -> None:
        while self.done < TRANSACTIONS:
            producer = self._producer()
            await producer.start()
            try:
                await repeated(lambda producer=producer: producer.init_transactions(keep_prepared_txn=True))
                await repeated(lambda producer=producer: producer.complete_transaction(self.state))
                while self.done < TRANSACTIONS:
                    await self._transaction(producer)
                    self.done += 1
            except Crash:
                self.crashes += 1
                self.done += 1
                await crash(producer)
            except FatalError:
                await crash(producer)
            else:
                await producer.stop()
        self.broker.faults.clear()
        async with producer_of(self.broker, self.name) as last:
            await last.init_transactions(keep_prepared_txn=True)
            await last.complete_transaction(self.state)

    def _producer(self) -> TransactionalProducer:
        return producer_of(
            self.broker,
            self.name,
            max_block_ms=self.chance.choice([60, 10_000]),
            max_batch_size=self.chance.choice([1, 16384]),
        )

    async def _transaction(self, producer: TransactionalProducer) -> None:
        records = [(0, b"%d:%d" % (self.done, place)) for place in range(self.chance.randrange(1, 5))]
        self._maybe_fault()
        await producer.begin_transaction()
        try:
            for partition, value in records:
                await producer.send("two", value, partition=partition)
            if self.chance.random() < 0.3:
                records += await self._join(producer)
            if self.chance.random() < 0.3:
                await producer.send_offsets_to_transaction({("two", 0): self.done + 1}, "group")
            self._maybe_crash()
            state = await repeated(producer.prepare_transaction)
        except TransactionAbortableError:
            await repeated(producer.abort_transaction)
            return
        self._maybe_crash()
        is_decided = self.chance.random() < 0.8
        if is_decided:
            self.decided += records
            self.state = state
        self._maybe_crash()
        assert await repeated(lambda: producer.complete_transaction(self.state)) == is_decided
        self._maybe_crash()

    async def _join(self, producer: TransactionalProducer) -> list[tuple[int, bytes]]:
        """Let a second producer write to another partition in the same transaction; return its records."""
        await repeated(producer.flush)
        value = b"%d:joined" % self.done
        async with self._producer() as other:
            await repeated(lambda: other.join_transaction(producer.share_transaction()))
            await other.send("two", value, partition=1)
            await repeated(other.flush)
        return [(1, value)]


@pytest.mark.parametrize("level", [1, 2])
async def test_readable_transactions_are_exactly_those_committed_by_the_database(level: int) -> None:
    crashes = 0
    for seed in range(SEEDS):
        with broker_at(level) as broker:
            world = World(broker, seed)
            async with asyncio.timeout(60):
                await world.run()
            readable = [(record.partition, record.value) for record in broker.records("two")]
        crashes += world.crashes
        assert readable == sorted(world.decided, key=lambda record: record[0]), seed
        assert world.decided
    assert crashes > SEEDS
