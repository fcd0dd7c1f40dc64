"""A manual clock moves the whole broker, and a seed makes its ids repeatable."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stuntbroker.broker.clock import ManualClock
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.random_source import SeededRandomSource
from stuntbroker.broker.server import Broker
from stuntbroker.broker.timers import Timers
from stuntbroker.coordinator.state import Phase
from tests.kit.groups.group_requests import TIMEOUT_MS, init, pair, write
from tests.kit.rig import START_MS, running_rig
from tests.kit.valid_requests import TOPIC


def raise_again(fault: Exception) -> None:
    raise fault


async def test_due_timer_calls_run_in_the_order_of_their_times() -> None:
    clock = ManualClock(START_MS)
    timers = Timers(asyncio.get_running_loop(), clock, raise_again)
    created: list[str] = []
    timers.call_later(30, lambda: created.append("last"))
    timers.call_later(10, lambda: timers.call_later(0, lambda: created.append("second")))
    timers.call_later(12, lambda: created.append("first"))
    timers.call_later(20, lambda: created.append("cancelled")).cancel()
    timers.call_later(31, lambda: created.append("too late"))
    timers.pass_time(clock, 30)
    assert created == ["first", "last", "second"]
    assert (clock.monotonic_ms(), clock.now_ms()) == (30, START_MS + 30)
    timers.pass_time(clock, 1)
    assert created[3:] == ["too late"]
    timers.close()


async def test_a_timer_call_that_fails_is_reported_and_stops_no_other() -> None:
    reported: list[Exception] = []
    clock = ManualClock(START_MS)
    timers = Timers(asyncio.get_running_loop(), clock, reported.append)
    fault = ValueError("no")
    called: list[int] = []

    def fail() -> None:
        raise fault

    timers.call_later(10, fail)
    timers.call_later(10, lambda: called.append(10))
    timers.call_later(11, lambda: called.append(11))
    timers.pass_time(clock, 10)
    assert (reported, called) == ([fault], [10])
    timers.pass_time(clock, 1)
    assert called == [10, 11]
    timers.close()


async def test_a_producer_without_a_transaction_stays_empty_when_the_clock_advances(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, "txn"))
        assert not write(client, "txn", owner, "x")
        rig.pass_time(TIMEOUT_MS)
        assert rig.actor("txn").txn.phase is Phase.ONGOING
        rig.pass_time(1_000)
        assert rig.actor("txn").txn.phase is Phase.COMPLETE_ABORT


async def test_the_same_seed_gives_the_same_ids(tmp_path: Path) -> None:
    def ids(folder: str, seed: int) -> tuple[str, bytes]:
        broker = Broker(BrokerConfig({}), str(tmp_path / folder), random_source=SeededRandomSource(seed))
        try:
            return broker.cluster_id, broker.topics.create(TOPIC, 1, {}).id
        finally:
            broker.data_dir.abandon()

    assert ids("a", 7) == ids("b", 7) != ids("c", 8)
