"""The loop of docs/how-to/client.md processes each record once under all kinds of faults, without a restart."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.client import ApplicationRecoverableError, FatalError, ProducerFencedError
from stuntbroker.client.producer.error_table import NO_FACTS, TABLE, Kind, Request, kind_of
from stuntbroker.control.plan import PLANS
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "client.md"
RECORDS = 12
APIS = {
    1: ("InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
    2: ("InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"),
}
VERBS: dict[str, dict[str, Any]] = {
    "its answer is lost": {"lose_response": True},
    "its connection breaks": {"close": True},
    "it comes twice": {"duplicate": True},
    "it has to be aborted": {"error": "TRANSACTION_ABORTABLE"},
    "it comes to the wrong broker": {"error": "NOT_COORDINATOR"},
}
MORE = 30
SLOW = "rebalance-during-transaction"
"""This plan's fault fires at the third heartbeat, after nine seconds."""
DEATH = "broker-dies-while-it-commits"
ZOMBIE = "zombie-after-a-pause"
DISK = "disk-full"
"""This plan ends the broker's process; tests/control/clients/test_asked_for.py covers it."""
HANGS = "hanging-transaction"
"""Under this plan, read_committed consumers cannot read past the hanging transaction."""


def loop_of_the_page(name: str = "process") -> Callable[..., Any]:
    """Return a function of the page's code."""
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if f"async def {name}(" in block:
            names: dict[str, Any] = {}
            exec(compile(block, PAGE.name, "exec"), names)
            loop: Callable[..., Any] = names[name]
            return loop
    raise AssertionError(f"the page has no {name}")


async def run(broker: Broker, count: int = RECORDS) -> int:
    """Run the loop until all records are processed, restarting it after a recoverable error; return the number of runs."""
    loop = loop_of_the_page()
    processes = 0
    async with asyncio.timeout(60):
        while True:
            processes += 1
            try:
                await loop(broker.bootstrap, lambda: len(broker.values("bills")) < count)
            except ApplicationRecoverableError:
                continue
            return processes


def prepare(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    broker.create_topic("bills")
    for number in range(RECORDS):
        broker.produce("orders", b"order %02d" % number, partition=number % 2)


def check(broker: Broker, count: int = RECORDS) -> None:
    assert sorted(broker.values("bills")) == [b"ORDER %02d" % number for number in range(count)]
    assert [
        each.state for each in broker.transactions() if each.state not in ("Empty", "CompleteCommit", "CompleteAbort")
    ] == []


FATAL = {("InitProducerId", "it comes twice")}
"""Faults that fence the producer: the coordinator takes the repeated request for another instance."""
NOT_OF_THE_LOOP = {("EndTxn", "it has to be aborted", 2)}
"""Faults that refuse an abort, after which Kafka's clients cannot continue either."""
MISPLACED_PRODUCE = ("Produce", "it comes to the wrong broker")
CASES = [
    (level, api, name, count)
    for level, apis in APIS.items()
    for api in apis
    for name in VERBS
    for count in (1, 2)
    if (api, name, count) not in NOT_OF_THE_LOOP
]


@pytest.mark.parametrize(("level", "api", "name", "count"), CASES)
async def test_a_failed_request_neither_loses_nor_duplicates_records(
    level: int, api: str, name: str, count: int, stuntbroker_factory: Callable[..., Broker]
) -> None:
    """`count`: the fault hits the first request, or the first two requests, of the producer."""
    verb = VERBS[name]
    if (api, name) == MISPLACED_PRODUCE:
        verb = {"error": "NOT_LEADER_OR_FOLLOWER"}
    broker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(prepare, broker)
    fault = await asyncio.to_thread(broker.faults.add, api, transactional_id="billing-1", times=count, **verb)
    processes = await run(broker)
    assert processes == (1 + count if (api, name) in FATAL else 1)
    assert fault.fired
    check(broker)


REQUESTS = [
    (2, "FindCoordinator", Request.FIND_COORDINATOR),
    (2, "InitProducerId", Request.INIT_PRODUCER_ID),
    (1, "AddPartitionsToTxn", Request.ADD_PARTITIONS),
    (2, "Produce", Request.PRODUCE),
    (1, "AddOffsetsToTxn", Request.ADD_OFFSETS),
    (2, "TxnOffsetCommit", Request.TXN_OFFSET_COMMIT),
    (1, "EndTxn", Request.END_TXN_COMMIT),
    (2, "EndTxn", Request.END_TXN_COMMIT),
]
UNNAMED = ErrorCode.INVALID_PARTITIONS
"""An error that the table does not name for any request."""
RESTARTED = (Kind.RECOVERABLE,)
STOPPED = (Kind.CONFIGURATION, Kind.FATAL)


def errors_of(request_kind: Request, are_retried: bool = False) -> list[tuple[ErrorCode, Kind]]:
    """Return (error, kind) of each error of the table that is retried or not, and of one that the table does not have."""
    errors = [(ErrorCode(code), kind_of(request_kind, code, NO_FACTS)) for code in (*TABLE[request_kind], UNNAMED)]
    return [
        (code, kind)
        for code, kind in errors
        # DUPLICATE_SEQUENCE_NUMBER means that the records are written, which would be false for an injected error.
        if (kind in (Kind.RETRY, Kind.REFRESH)) is are_retried and code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    ]


@pytest.mark.parametrize(("level", "api", "request_kind"), REQUESTS)
async def test_the_loop_goes_on_after_an_abortable_error_and_ends_after_a_fatal_one(
    level: int, api: str, request_kind: Request, stuntbroker_factory: Callable[..., Broker]
) -> None:
    loop = loop_of_the_page()
    stuntbroker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(prepare, stuntbroker)
    count = RECORDS
    assert await run(stuntbroker) == 1
    for code, kind in errors_of(request_kind):
        fault = await asyncio.to_thread(
            stuntbroker.faults.add, api, transactional_id="billing-1", times=1, error=code.name
        )
        await asyncio.to_thread(stuntbroker.produce, "orders", b"order %02d" % count)
        count += 1
        if kind in STOPPED:
            with pytest.raises(FatalError) as raised:
                await loop(stuntbroker.bootstrap, lambda: len(stuntbroker.values("bills")) < count)  # noqa: B023
            assert not isinstance(raised.value, ApplicationRecoverableError)
        assert await run(stuntbroker, count) == (2 if kind in RESTARTED else 1), code.name
        assert fault.fired == 1
        check(stuntbroker, count)


@pytest.mark.parametrize(("level", "api", "request_kind"), REQUESTS)
async def test_the_loop_does_not_notice_an_error_that_is_retried(
    level: int, api: str, request_kind: Request, stuntbroker_factory: Callable[..., Broker]
) -> None:
    stuntbroker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(prepare, stuntbroker)
    count = RECORDS
    for code, _ in errors_of(request_kind, are_retried=True):
        fault = await asyncio.to_thread(
            stuntbroker.faults.add, api, transactional_id="billing-1", times=1, error=code.name
        )
        await asyncio.to_thread(stuntbroker.produce, "orders", b"order %02d" % count)
        count += 1
        assert await run(stuntbroker, count) == 1, code.name
        assert fault.fired == 1, code.name
    check(stuntbroker, count)


@pytest.mark.parametrize("level", APIS)
async def test_the_loop_that_only_writes_writes_each_value_once(
    level: int, stuntbroker_factory: Callable[..., Broker]
) -> None:
    write_all = loop_of_the_page("write_all")
    broker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(broker.create_topic, "numbers")
    expected = []
    for _, api, name, count in (case for case in CASES if case[0] == level):
        if api not in ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"):
            continue
        verb = {"error": "NOT_LEADER_OR_FOLLOWER"} if (api, name) == MISPLACED_PRODUCE else VERBS[name]
        fault = await asyncio.to_thread(broker.faults.add, api, transactional_id="writer-1", times=count, **verb)
        values = deque(f"{api}, {name}, {count}: {number}".encode() for number in range(3))
        expected += values
        for _ in range(count if (api, name) in FATAL else 0):
            with pytest.raises(ApplicationRecoverableError):
                await write_all(broker.bootstrap, values)
        await write_all(broker.bootstrap, values)
        assert fault.fired, (api, name, count)
        await asyncio.to_thread(fault.remove)

    assert broker.values("numbers") == expected


@pytest.mark.parametrize(("level", "api", "request_kind"), [each for each in REQUESTS if "Offset" not in each[1]])
async def test_the_loop_that_only_writes_goes_on_after_an_abortable_error_and_ends_after_a_fatal_one(
    level: int, api: str, request_kind: Request, stuntbroker_factory: Callable[..., Broker]
) -> None:
    write_all = loop_of_the_page("write_all")
    broker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(broker.create_topic, "numbers")
    expected = []
    for code, kind in errors_of(request_kind):
        nth = (
            1 if api in ("FindCoordinator", "InitProducerId") else 2
        )  # A function that is called again must not write the first value again.
        fault = await asyncio.to_thread(
            broker.faults.add, api, transactional_id="writer-1", nth=nth, times=1, error=code.name
        )
        values = deque(f"{code.name} {number}".encode() for number in range(2))
        expected += values
        if kind in (*RESTARTED, *STOPPED):
            with pytest.raises(FatalError) as raised:
                await write_all(broker.bootstrap, values)
            assert isinstance(raised.value, ApplicationRecoverableError) is (kind in RESTARTED), code.name
        await write_all(broker.bootstrap, values)
        assert fault.fired == 1, code.name

    assert broker.values("numbers") == expected


@pytest.mark.parametrize("level", APIS)
async def test_the_loop_that_only_writes_continues_after_a_time_out(
    level: int, stuntbroker_factory: Callable[..., Broker]
) -> None:
    """Under transaction version 1, a time-out looks like fencing, so a new producer must continue."""
    broker = stuntbroker_factory(**{"transaction.version": level})
    await asyncio.to_thread(broker.create_topic, "numbers")
    write_all = loop_of_the_page("write_all")
    await asyncio.to_thread(broker.faults.add, "EndTxn", advance_ms=120_000, times=1)
    values = deque([b"late", b"in time"])
    if level == 1:
        with pytest.raises(ProducerFencedError):
            await write_all(broker.bootstrap, values)
    await write_all(broker.bootstrap, values)

    assert broker.values("numbers") == [b"late", b"in time"]


@pytest.mark.parametrize("plan", sorted(set(PLANS) - {DEATH, SLOW, HANGS, ZOMBIE, DISK}))
async def test_fault_plans_neither_lose_nor_duplicate_records(plan: str, stuntbroker: Broker) -> None:
    await asyncio.to_thread(prepare, stuntbroker)
    await asyncio.to_thread(stuntbroker.apply_plan, plan)
    feeder = asyncio.create_task(feed(stuntbroker, MORE))
    assert await run(stuntbroker, RECORDS + MORE) == 1
    await feeder
    check(stuntbroker, RECORDS + MORE)


async def test_a_zombie_ends_and_another_process_continues(stuntbroker: Broker) -> None:
    await asyncio.to_thread(prepare, stuntbroker)
    await asyncio.to_thread(stuntbroker.apply_plan, ZOMBIE)
    assert await run(stuntbroker) == 2
    check(stuntbroker)


async def test_a_rebalance_during_a_transaction_neither_loses_nor_duplicates_records(stuntbroker: Broker) -> None:
    await asyncio.to_thread(prepare, stuntbroker)
    await asyncio.to_thread(stuntbroker.apply_plan, SLOW)
    total = RECORDS

    async def feed_slowly() -> None:
        nonlocal total
        while not (await asyncio.to_thread(stuntbroker.control.get, "/v1/faults"))["faults"][0]["fired"]:
            stuntbroker.produce("orders", b"order %02d" % total, partition=total % 2)
            total += 1
            await asyncio.sleep(0.3)  # Heartbeats follow the client's real clock: the third comes after nine seconds.

    feeder = asyncio.create_task(feed_slowly())
    loop = loop_of_the_page()
    async with asyncio.timeout(60):
        await loop(stuntbroker.bootstrap, lambda: not feeder.done() or len(stuntbroker.values("bills")) < total)
    await feeder
    check(stuntbroker, total)


async def feed(broker: Broker, count: int) -> None:
    """Write more records, each after the earlier ones are processed, so that each has its own transaction."""
    for number in range(RECORDS, RECORDS + count):
        while len(broker.values("bills")) < number:  # The loop calls the broker in this thread too.
            await asyncio.sleep(0.005)
        broker.produce("orders", b"order %02d" % number, partition=number % 2)


async def test_a_broker_crash_during_a_commit_neither_loses_nor_duplicates_records(stuntbroker: Broker) -> None:
    await asyncio.to_thread(prepare, stuntbroker)
    await asyncio.to_thread(stuntbroker.apply_plan, DEATH)
    is_over = False
    process = asyncio.create_task(loop_of_the_page()(stuntbroker.bootstrap, lambda: not is_over))
    async with asyncio.timeout(60):
        while await asyncio.to_thread(lambda: stuntbroker.is_running):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(stuntbroker.restart)
        while len(await asyncio.to_thread(stuntbroker.values, "bills")) < RECORDS:
            await asyncio.sleep(0.01)
        is_over = True
        await process
    check(stuntbroker)
