"""Random calls under random faults: what is readable at the end are exactly the transactions that reported success."""

from __future__ import annotations

import asyncio
import random

import pytest
from model_broker import Fault, ModelBroker

from stuntbroker.client import FatalError, OperationTimedOutError, TransactionAbortableError, TransactionalProducer
from stuntbroker.client.producer.error_table import TABLE, Kind, Request

SEEDS_OF_A_TEST = 25
TRANSACTIONS = 8
RETRIED = {
    request: [code for code, kind in codes.items() if kind in (Kind.RETRY, Kind.REFRESH)]
    for request, codes in TABLE.items()
}
REFUSED = {
    request: [code for code, kind in codes.items() if kind in (Kind.ABORTABLE, Kind.ABORTABLE_WITH_BUMP)]
    for request, codes in TABLE.items()
}
REFUSED[Request.FIND_COORDINATOR] = REFUSED[Request.FIND_GROUP_COORDINATOR] = []  # Fatal while the producer aborts.


class World:
    """One application and one broker, both driven by one seed."""

    def __init__(self, seed: int, level: int) -> None:
        self.chance = random.Random(seed)
        self.broker = ModelBroker(level, self._fault)
        self.reported: list[list[bytes]] = []
        self.unknown: list[list[bytes]] = []
        self.fatal = 0
        self.timed_out = 0
        self._faults_left = 40

    def _fault(self, name: str, count: int) -> Fault | None:
        if self._faults_left == 0 or self.chance.random() > 0.15:
            return None
        self._faults_left -= 1
        request = Request(name)
        match self.chance.randrange(10):
            case 0 | 1:
                return Fault(None)
            case 2 | 3:
                return Fault(None, is_applied=True)
            case 4 if REFUSED[request]:
                return Fault(self.chance.choice(REFUSED[request]))
            case _:
                return Fault(self.chance.choice(RETRIED[request]))

    async def run(self) -> None:
        """Run transactions with new producers, as often as fatal errors make it necessary."""
        done = 0
        with self.broker:
            while done < TRANSACTIONS:
                async with TransactionalProducer(
                    bootstrap_servers=str(self.broker.address),
                    transactional_id="id",
                    retry_backoff_ms=1,
                    max_batch_size=self.chance.choice([1, 200, 16384]),
                    linger_ms=self.chance.choice([0, 0, 1]),
                    max_block_ms=self.chance.choice([30, 10_000]),
                ) as producer:
                    try:
                        await self._repeat(producer.init_transactions)
                        while done < TRANSACTIONS:
                            await self._transaction(producer, done)
                            done += 1
                    except TransactionAbortableError:
                        continue  # Of init_transactions: there is no transaction to abort.
                    except FatalError:
                        self.fatal += 1
                        done += 1

    async def _repeat(self, call: object) -> None:
        """A time-out of a call is followed by the same call."""
        assert callable(call)
        while True:
            try:
                await call()
                return
            except OperationTimedOutError:
                continue

    async def _transaction(self, producer: TransactionalProducer, number: int) -> None:
        values = [b"%d:%d" % (number, place) for place in range(self.chance.randrange(1, 12))]
        await producer.begin_transaction()
        try:
            for place, value in enumerate(values):
                await producer.send("t", value, partition=place % 2)
                if self.chance.random() < 0.1:
                    await asyncio.sleep(0)
                if self.chance.random() < 0.05:
                    await self._repeat(producer.flush)
            if self.chance.random() < 0.5:
                await producer.send_offsets_to_transaction({("t", 0): number + 1}, "group")
            if self.chance.random() < 0.03 and self.broker.is_ongoing:
                self.broker.time_out()
                self.timed_out += 1
            if self.chance.random() < 0.2:
                await self._repeat(producer.abort_transaction)
                return
            self.unknown.append(values)
            await self._repeat(producer.commit_transaction)
        except TransactionAbortableError:
            if self.unknown and self.unknown[-1] is values:
                self.unknown.pop()
            await self._repeat(producer.abort_transaction)
        else:
            self.reported.append(self.unknown.pop())

    def problems(self) -> list[str]:
        """What contradicts the promise."""
        left = list(self.broker.committed)
        by_transaction: dict[bytes, list[bytes]] = {}
        for value in left:
            by_transaction.setdefault(value.split(b":")[0], []).append(value)
        wrong = []
        for values in self.reported:
            committed = by_transaction.pop(values[0].split(b":")[0], [])
            for parity in range(2):
                expected = values[parity::2]
                if [value for value in committed if int(value.split(b":")[1]) % 2 == parity] != expected:
                    wrong.append(f"committed {committed}, sent {values}")
        for values in self.unknown:
            committed = by_transaction.pop(values[0].split(b":")[0], [])
            if committed and sorted(committed) != sorted(values):
                wrong.append(f"a part of {values} is committed: {committed}")
        wrong += [f"committed without a success: {values}" for values in by_transaction.values()]
        return wrong


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("first_seed", range(0, 4 * SEEDS_OF_A_TEST, SEEDS_OF_A_TEST))
async def test_what_is_readable_is_what_was_reported(level: int, first_seed: int) -> None:
    wrong = {}
    for seed in range(first_seed, first_seed + SEEDS_OF_A_TEST):
        world = World(seed, level)
        async with asyncio.timeout(60):
            await world.run()
        if problems := world.problems():
            wrong[seed] = problems
        assert len(world.reported) > 0
        # Before transaction version 2, a time-out cannot be distinguished from a fence.
        assert world.fatal <= (world.timed_out if level < 2 else 0), seed
    assert wrong == {}
