"""Unused transactional ids are removed after `transactional.id.expiration.ms`."""

from __future__ import annotations

from pathlib import Path

from tests.kit.groups.group_requests import init, pair
from tests.kit.rig import Rig, running_rig
from tests.kit.transactions.id_expiry import AGE_MS, PROPERTIES, ids

STEP_MS = 100


def pass_time(rig: Rig, ms: int) -> None:
    for _ in range(ms // STEP_MS):
        rig.pass_time(STEP_MS)


async def test_an_id_is_forgotten_when_its_time_is_over_and_not_before(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        client = rig.client()
        init(client, "first")
        pass_time(rig, AGE_MS // 2)
        init(client, "second")
        pass_time(rig, AGE_MS // 2 - STEP_MS)
        assert ids(client) == {"first", "second"}
        pass_time(rig, 2 * STEP_MS)
        assert ids(client) == {"second"}
        pass_time(rig, AGE_MS // 2)
        assert ids(client) == set()


async def test_every_use_of_a_transactional_id_restarts_its_expiration_time(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        client = rig.client()
        owner = pair(init(client, "used"))
        for _ in range(3):
            pass_time(rig, AGE_MS - STEP_MS)
            owner = pair(init(client, "used", owner=owner))
        assert owner[1] == 3
        pass_time(rig, AGE_MS + STEP_MS)
        assert ids(client) == set()


async def test_a_restart_does_not_change_when_a_transactional_id_expires(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        init(rig.client(), "idle")
    async with running_rig(data_dir, PROPERTIES) as rig:
        client = rig.client()
        pass_time(rig, AGE_MS - STEP_MS)
        assert ids(client) == {"idle"}
        pass_time(rig, 2 * STEP_MS)
        assert ids(client) == set()
