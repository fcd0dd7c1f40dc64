from __future__ import annotations

import asyncio

import pytest

from stuntbroker.broker.clock import Clock
from stuntbroker.control import clock as control_clock
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from tests.kit.produce_and_fetch import fetch
from tests.kit.rig import Client, Rig, frame, turn
from tests.kit.transactions.two_calls import begin, end
from tests.kit.valid_requests import TOPIC

HOUR_MS = 3_600_000


# --- the clock alone


def test_a_clock_that_is_paused_stands_still_and_continues_without_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    real = {"now": 1_000, "monotonic": 50}
    monkeypatch.setattr(Clock, "now_ms", lambda self: real["now"])
    monkeypatch.setattr(Clock, "monotonic_ms", lambda self: real["monotonic"])
    clock = TestClock()

    clock.pause()
    real |= {"now": 3_000, "monotonic": 2_050}
    assert (clock.now_ms(), clock.monotonic_ms(), clock.is_paused) == (1_000, 50, True)

    clock.move_to(150)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_100, 150)

    clock.resume()
    assert (clock.now_ms(), clock.monotonic_ms(), clock.is_paused) == (1_100, 150, False)
    real |= {"now": 3_007, "monotonic": 2_057}
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_107, 157)


def test_a_clock_is_never_moved_back() -> None:
    clock = TestClock()
    clock.pause()
    before_ms = clock.monotonic_ms()
    clock.move_to(before_ms - 10)
    assert clock.monotonic_ms() == before_ms


# --- a broker's time


async def test_timer_calls_happen_at_their_time_and_in_order(rig: Rig, control: Control) -> None:
    clock, timers = rig.broker.clock, rig.broker.timers
    begin_ms = clock.monotonic_ms()
    calls: list[tuple[str, int]] = []

    def note(name: str) -> None:
        calls.append((name, clock.monotonic_ms() - begin_ms))

    timers.call_later(700, lambda: note("second"))
    timers.call_later(300, lambda: (note("first"), timers.call_later(200, lambda: note("set off by the first"))))
    timers.call_later(1_001, lambda: note("later"))
    await control.clock.advance(1_000)

    assert calls == [("first", 300), ("set off by the first", 500), ("second", 700)]
    assert clock.monotonic_ms() == begin_ms + 1_000


async def test_periodic_calls_without_work_are_skipped_and_keep_their_period(rig: Rig, control: Control) -> None:
    clock, timers = rig.broker.clock, rig.broker.timers
    begin_ms = clock.monotonic_ms()
    calls: list[int] = []
    wanted_ms: list[int | None] = [begin_ms + 1_234]

    def sweep() -> None:
        calls.append(clock.monotonic_ms() - begin_ms)
        wanted_ms[0] = None

    timers.every(100, sweep, lambda: wanted_ms[0])
    await control.clock.advance(5_000)
    assert calls == [1_300]

    wanted_ms[0] = 0
    await control.clock.advance(250)
    assert calls == [1_300, 5_100]


async def test_a_transaction_times_out_when_its_time_is_over_and_not_before(rig: Rig, control: Control) -> None:
    rig.topic("t")
    client = rig.client()
    given = begin(client, timeout_ms=60_000)

    await control.clock.advance(60_000)
    assert rig.broker.transactions.state_of("pay").phase.kafka_name == "Ongoing"

    await control.clock.advance(200)
    assert rig.broker.transactions.state_of("pay").phase.kafka_name == "CompleteAbort"
    ended_at_ms = rig.broker.transactions.state_of("pay").updated_at_ms
    assert 60_000 < ended_at_ms - (rig.broker.clock.now_ms() - 60_200) <= 60_200
    assert end(client, given) == ErrorCode.PRODUCER_FENCED


async def test_advancing_an_hour_times_out_each_transaction_at_its_own_time(rig: Rig, control: Control) -> None:
    rig.topic("t")
    client = rig.client()
    began_ms = rig.broker.clock.now_ms()
    for minutes in (30, 5, 50):
        begin(client, f"{minutes} minutes", minutes * 60_000)
    config = rig.broker.config
    config.replace({**config.values, "transaction.max.timeout.ms": HOUR_MS})

    await control.clock.advance(HOUR_MS)

    ended = [facts["transactional_id"] for name, facts in rig.events.kept if name == "txn_timed_out"]
    known = ["5 minutes", "30 minutes", "50 minutes"]
    assert ended == [name for name in known if rig.broker.transactions.state_of(name) is not None]
    for name in ended:
        minutes = int(name.split()[0])
        late_ms = rig.broker.transactions.state_of(name).updated_at_ms - began_ms - minutes * 60_000
        assert 0 < late_ms <= 200


async def test_a_skipped_periodic_call_runs_when_another_call_gives_it_work(rig: Rig, control: Control) -> None:
    """A sweep with nothing to do is skipped only until the next other call, as that call may give it work."""
    clock, timers = rig.broker.clock, rig.broker.timers
    begin_ms = clock.monotonic_ms()
    calls: list[int] = []
    wanted_ms: list[int | None] = [None]

    def sweep() -> None:
        calls.append(clock.monotonic_ms() - begin_ms)
        wanted_ms[0] = None

    def give_it_something() -> None:
        wanted_ms[0] = begin_ms + 2_050

    timers.every(100, sweep, lambda: wanted_ms[0])
    timers.call_later(2_000, give_it_something)
    await control.clock.advance(10_000)
    assert calls == [2_100]


async def test_work_in_slices_continues_while_time_stands(rig: Rig, control: Control) -> None:
    timers = rig.broker.timers
    slices: list[int] = []

    def step() -> None:
        slices.append(len(slices))
        if len(slices) < 3:
            timers.soon(step)

    timers.soon(step)
    for _ in range(3):
        await turn()
    assert slices == [0, 1, 2]


async def test_work_in_slices_is_done_before_time_continues(rig: Rig, control: Control) -> None:
    clock, timers = rig.broker.clock, rig.broker.timers
    begin_ms = clock.monotonic_ms()
    calls: list[int] = []

    def step() -> None:
        calls.append(clock.monotonic_ms() - begin_ms)
        if len(calls) < 3:
            timers.soon(step)

    timers.call_later(100, step)
    timers.call_later(101, lambda: calls.append(-1))
    await control.clock.advance(1_000)
    assert calls == [100, 100, 100, -1]


def calls_of(rig: Rig, name: str) -> list[int]:
    """Return a list that gets an item whenever housekeeping calls this method of the transactions."""
    calls: list[int] = []
    transactions = rig.broker.transactions
    method = getattr(transactions, name)
    setattr(transactions, name, lambda: (calls.append(1), method()))
    rig.broker.timers.close()
    rig.broker.begin_housekeeping()
    return calls


async def test_advancing_an_hour_calls_few_sweeps(rig: Rig, control: Control) -> None:
    """An hour has 36,000 sweeps; those without a transaction to end are skipped."""
    rig.topic("t")
    begin(rig.client(), timeout_ms=600_000)
    sweeps = calls_of(rig, "sweep")

    await control.clock.advance(HOUR_MS)

    assert 1 <= len(sweeps) <= 5
    assert rig.broker.transactions.state_of("pay").phase.kafka_name == "CompleteAbort"


async def test_requests_that_arrive_during_an_advance_are_handled_after_it(rig: Rig, control: Control) -> None:
    rig.topic(TOPIC)
    client = rig.client()
    client.feed(frame(fetch(0, max_wait_ms=500), 11))
    moving = asyncio.ensure_future(control.clock.advance(HOUR_MS))
    while not client.answers():
        await asyncio.sleep(0)
    assert not moving.done()

    client.feed(frame(fetch(0, max_wait_ms=500), 11))
    assert [each.state for each in control.requests.requests] == ["answered"]
    await moving

    assert [each.state for each in control.requests.requests] == ["answered", "waits"]
    first, second = (each.at_ms for each in control.requests.requests)
    assert second - first == HOUR_MS


def ask_while_moving(rig: Rig, client: Client, control: Control) -> asyncio.Future[None]:
    """Begin to advance the clock by an hour, during which a request arrives."""
    moving = asyncio.ensure_future(control.clock.advance(HOUR_MS))
    rig.broker.timers.call_later(1_000, lambda: client.feed(frame(MetadataRequest([]), 9)))
    return moving


async def test_an_advance_defers_requests_no_longer_than_clients_wait(
    rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_clock, "KEPT_MS_MAX", 0)
    began_ms = rig.broker.clock.now_ms()
    await ask_while_moving(rig, rig.client(), control)
    (request,) = control.requests.requests
    assert request.at_ms == began_ms + 1_000


@pytest.mark.parametrize("what", ["the broker ends", "its node is stopped"])
async def test_a_deferred_request_is_not_handled_when_the_broker_or_its_node_stops(
    what: str, rig: Rig, control: Control
) -> None:
    client = rig.client()
    moving = ask_while_moving(rig, client, control)
    (node,) = rig.broker.nodes.by_id.values()

    def happens() -> None:
        if what == "the broker ends":
            control.clock.forget()
        else:
            node.is_up = False

    rig.broker.timers.call_later(2_000, happens)
    await moving
    node.is_up = True
    assert (client.answers(), list(control.requests.requests)) == ([], [])


async def test_a_clock_during_an_advance_is_not_reported_as_paused(rig: Rig, control: Control) -> None:
    await control.clock.resume()
    seen: list[tuple[bool, bool]] = []
    rig.broker.timers.call_later(1_000, lambda: seen.append((control.clock.is_paused, control.clock.clock.is_paused)))
    await control.clock.advance(HOUR_MS)
    assert seen == [(False, True)]
    await control.clock.pause()


async def test_a_parked_id_does_not_cause_an_expiry_check_at_every_period(rig: Rig, control: Control) -> None:
    rig.topic("t")
    control.stops.add("txn.PrepareAbort.after", {})
    begin(rig.client(), timeout_ms=60_000)
    looks = calls_of(rig, "expire")

    await control.clock.advance(7 * 24 * HOUR_MS + HOUR_MS)

    assert rig.broker.transactions.state_of("pay").phase.kafka_name == "PrepareAbort"
    assert 1 <= len(looks) <= 100
    control.stops.remove("stop-1")


async def test_an_advance_closes_no_idle_connections(rig: Rig, control: Control) -> None:
    client = rig.client()
    begin(client)
    await control.clock.advance(10 * HOUR_MS)
    assert not client.transport.closed


async def test_timers_wait_while_the_clock_is_paused_and_fire_after_resume(rig: Rig, control: Control) -> None:
    await control.clock.resume()
    calls: list[int] = []
    await control.clock.pause()
    rig.broker.timers.call_later(0, lambda: calls.append(1))
    await control.clock.advance(0)
    assert calls == [1]
    called = asyncio.Event()
    rig.broker.timers.call_later(1, called.set)
    rig.broker.timers.run_due()
    assert not called.is_set()
    await control.clock.resume()
    await called.wait()


async def test_a_timer_call_that_fails_is_reported_and_stops_no_other(rig: Rig, control: Control) -> None:
    calls: list[int] = []

    def fail() -> None:
        raise RuntimeError("broken")

    rig.broker.timers.call_later(10, fail)
    rig.broker.timers.call_later(20, lambda: calls.append(1))
    await control.clock.advance(30)
    assert calls == [1]
    name, facts = rig.events.kept.pop()
    assert (name, str(facts["exc_info"])) == ("timer_failed", "broken")
