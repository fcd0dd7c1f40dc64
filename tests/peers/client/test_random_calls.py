"""Random calls, some cancelled, while connections break: exactly the transactions that reported success are readable."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.kit.brokers.judge import check_nothing_is_open
from tests.kit.transactions.faulty_wire import BreaksAtRandom, FaultyWire
from tests.kit.transactions.random_calls import PARTITIONS, RandomCalls
from tests.peers.aiokafka_steps import create_topic
from tests.peers.client.committed import committed, producing

SEEDS = 6
FENCING = 0.2
TRANSACTIONS = 12
BLOCK_MS = 10_000


async def test_readable_transactions_are_exactly_those_reported_as_committed(
    each_bootstrap: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = unsent = cancelled = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        name = f"{own}-{seed}"
        topic = await create_topic(each_bootstrap, name, partitions=PARTITIONS)
        options = {"bootstrap_servers": each_bootstrap, "transactional_id": name, "max_block_ms": BLOCK_MS}
        calls = RandomCalls(chance, TRANSACTIONS, topic, options, group=name)
        wire = FaultyWire(BreaksAtRandom(chance, probability=0.12, faults_max=30))
        with wire.installed(monkeypatch):
            async with asyncio.timeout(60):
                await calls.run()
        async with producing(each_bootstrap, name):  # Fences what may be open, and aborts it.
            pass

        values = [await committed(each_bootstrap, topic, partition) for partition in range(PARTITIONS)]
        assert calls.problems([value.encode() for part in values for value in part]) == [], seed
        assert calls.fatal == 0, seed
        check_nothing_is_open(each_bootstrap, topic, PARTITIONS)
        lost, unsent, cancelled = lost + wire.lost, unsent + wire.unsent, cancelled + calls.cancelled
    assert lost > SEEDS and unsent > 0 and cancelled > SEEDS


async def test_an_instance_that_was_replaced_at_random_commits_nothing_unreported(
    each_bootstrap: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fenced = fatal = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        name = f"{own}-{seed}"
        topic = await create_topic(each_bootstrap, name, partitions=PARTITIONS)
        options = {"bootstrap_servers": each_bootstrap, "transactional_id": name, "max_block_ms": BLOCK_MS}
        calls = RandomCalls(chance, TRANSACTIONS, topic, options, group=name, fencing=FENCING)
        faults = BreaksAtRandom(chance, probability=0.05, faults_max=10)
        with FaultyWire(faults).installed(monkeypatch):
            async with asyncio.timeout(60):
                await calls.run()
        async with producing(each_bootstrap, name):
            pass

        values = [await committed(each_bootstrap, topic, partition) for partition in range(PARTITIONS)]
        assert calls.problems([value.encode() for part in values for value in part]) == [], seed
        check_nothing_is_open(each_bootstrap, topic, PARTITIONS)
        fenced, fatal = fenced + calls.fenced, fatal + calls.fatal
    assert fenced >= fatal > SEEDS
