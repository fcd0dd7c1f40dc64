"""After a step of the system clock, waits last as long as before, and stored timestamps are compared with the new time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.clock import Clock
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from tests.kit.groups.group_requests import GROUP, TIMEOUT_MS, init, join, pair, write
from tests.kit.produce_and_fetch import fetch
from tests.kit.rig import Client, decode, frame, running_rig
from tests.kit.transactions.id_expiry import AGE_MS, PROPERTIES, ids
from tests.kit.valid_requests import TOPIC

STEPS_MS = (-3_600_000, -8_000, 60_000)
SESSION_MS = 30_000


def heartbeat(client: Client, member: tuple[str, int]) -> int:
    code: int = client.ask(HeartbeatRequest(GROUP, member[1], member[0]), 4).error_code
    return code


def phase(created: Any, transactional_id: str) -> str:
    name: str = created.actor(transactional_id).txn.phase.name
    return name


def test_a_step_of_the_system_clock_changes_now_ms_but_not_monotonic_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.time_ns", lambda: 5_000_000)
    before_ms = clock.monotonic_ms()
    monkeypatch.setattr("time.time_ns", lambda: 3_000_000)
    assert clock.now_ms() == 3
    assert clock.monotonic_ms() >= before_ms > 5


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_clock_step_does_not_change_the_wait_of_a_fetch(step_ms: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(fetch(0, 500), 12))
        rig.clock.step(step_ms)
        rig.pass_time(499)
        assert client.answers() == []
        rig.pass_time(1)
        (answer,) = client.answers()
        assert decode(answer, 1, 12).error_code == 0


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_clock_step_does_not_change_the_session_time_out_of_a_member(step_ms: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        member = join(client)
        rig.pass_time(SESSION_MS - 1)
        rig.clock.step(step_ms)
        rig.pass_time(0)
        assert heartbeat(client, member) == 0
        rig.pass_time(SESSION_MS - 1)
        assert heartbeat(client, member) == 0
        rig.clock.step(-step_ms)
        rig.pass_time(SESSION_MS)
        assert heartbeat(client, member) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("step_ms", STEPS_MS)
async def test_a_clock_step_does_not_change_the_idle_time_out_of_a_connection(step_ms: int, data_dir: Path) -> None:
    async with running_rig(data_dir, {"connections.max.idle.ms": "20000"}) as rig:
        client = rig.client()
        rig.clock.step(step_ms)
        rig.pass_time(10_000)
        assert not client.transport.closed
        rig.pass_time(10_000)
        assert not client.transport.closed
        rig.pass_time(10_000)
        assert client.transport.closed


async def test_a_transaction_times_out_by_the_machines_clock_as_in_kafka(data_dir: Path) -> None:
    """The start time of a transaction is stored, and DescribeTransactions returns it."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        for name in ("early", "late"):
            assert write(client, name, pair(init(client, name)), "v") == 0
            rig.clock.step(-TIMEOUT_MS)
        rig.pass_time(TIMEOUT_MS + 1_000)
        assert phase(rig, "early") == phase(rig, "late") == "ONGOING"
        rig.clock.step(TIMEOUT_MS)
        rig.pass_time(1_000)
        assert (phase(rig, "early"), phase(rig, "late")) == ("ONGOING", "COMPLETE_ABORT")


async def test_a_transactional_id_created_after_a_clock_correction_expires_by_the_corrected_time(
    data_dir: Path,
) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        client = rig.client()
        rig.clock.step(100 * AGE_MS)
        init(client, "of-the-future")
        rig.pass_time(AGE_MS // 2)  # The broker now expects no expiry soon.
        rig.clock.step(-100 * AGE_MS)
        init(client, "of-today")
        rig.pass_time(AGE_MS + 1_000)
        assert ids(client) == {"of-the-future"}
