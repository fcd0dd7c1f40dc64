"""Random calls, some cancelled, under random faults: exactly the transactions that reported success are readable."""

from __future__ import annotations

import asyncio
import random

import pytest
from model_broker import ModelBroker

from stuntbroker.client.producer.error_table import TABLE, Kind, Request
from tests.kit.transactions.faults import Fault
from tests.kit.transactions.random_calls import RandomCalls

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
REFUSED[Request.END_TXN_ABORT] = []  # Fatal after a commit that was refused, too: nobody knows whether it took place.


class World:
    """An application and a broker with faults, both driven by one seed."""

    def __init__(self, seed: int, level: int) -> None:
        self.chance = random.Random(seed)
        self.broker = ModelBroker(level, self._fault)
        options = {
            "bootstrap_servers": str(self.broker.address),
            "transactional_id": "id",
            "max_block_ms": self.chance.choice([30, 10_000]),
        }
        self.calls = RandomCalls(self.chance, TRANSACTIONS, "t", options, self._time_out)
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

    def _time_out(self) -> bool:
        if not self.broker.is_ongoing:
            return False
        self.broker.time_out()
        return True


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("first_seed", range(0, 4 * SEEDS_OF_A_TEST, SEEDS_OF_A_TEST))
async def test_readable_transactions_are_exactly_those_reported_as_committed(level: int, first_seed: int) -> None:
    wrong = {}
    cancelled = reported = 0
    for seed in range(first_seed, first_seed + SEEDS_OF_A_TEST):
        world = World(seed, level)
        async with asyncio.timeout(60):
            with world.broker:
                await world.calls.run()
        if problems := world.calls.problems(world.broker.committed):
            wrong[seed] = problems
        reported += len(world.calls.reported)
        cancelled += world.calls.cancelled
        # Before transaction version 2, a time-out cannot be distinguished from a fence.
        assert world.calls.fatal <= (world.calls.timed_out if level < 2 else 0), seed
    assert wrong == {}
    assert min(cancelled, reported) > SEEDS_OF_A_TEST
