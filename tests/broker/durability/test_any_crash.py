"""Acknowledged data survives a crash before any call of the disk, and a second crash during the restart.

With `--durability process` data survives the end of the process; with `--durability power` also a power cut.
"""

from __future__ import annotations

import copy
from random import Random

import pytest

from stuntbroker.storage import compaction
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.disk_rig import Disk
from tests.kit.rig import SyncedAtOnce, running_rig, turn
from tests.kit.transactions.acknowledged import Inspection
from tests.kit.transactions.crashing_world import KEPT_ID, PROPERTIES, Crash, CrashingWorld

STEPS = 500
PROBABILITY = 0.015
"""Probability that the broker crashes before a call of the disk: about 30 crashes in each run."""
START_CALLS = 30
"""The second crash happens before one of this many calls at the beginning of the restart."""


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("seed", range(20))
async def test_acknowledged_data_survives_a_crash_at_any_disk_call(
    seed: int, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SLICE_BYTES", 500)
    disk = MemoryDisk()
    executor = Disk() if durability == "power" else None
    async with running_rig(None, PROPERTIES, durability, executor, disk=disk) as rig:
        world = CrashingWorld(rig, disk, executor, seed, PROBABILITY)
        await world.run(STEPS)

    wrong = []
    for number, crash in enumerate(world.crashes):
        random = Random(f"{seed} {number}")
        wrong += [f"{crash.where}: {each}" for each in await wrong_after(crash, durability, random)]
    assert not wrong, "\n".join(wrong)
    assert len(world.crashes) > 5
    transactions = [each for of_id in world.facts.transactions.values() for each in of_id]
    assert {each.commit_sent for each in transactions if each.end_acknowledged} == {True, False}


async def wrong_after(crash: Crash, durability: str, random: Random | None) -> list[str]:
    """Start a broker from the disk of a crash; return what is wrong with it. With `random`, also crash during this start."""
    wrong = []
    second: list[MemoryDisk] = []
    disk = crash.disk
    if random is not None:
        at, calls = random.randrange(START_CALLS), iter(range(START_CALLS + 1))

        def on_call(call: str, path: str) -> None:
            if next(calls, -1) == at:
                disk.on_call = None
                second.append(disk.copy() if durability == "process" else disk.after_power_cut(random))

        disk.on_call = on_call
    try:
        wrong += await _wrong_in(disk, crash, durability)
    except StorageError as fault:
        # The disk wrote later sectors before earlier ones, which looks like a damaged file.
        if durability == "process" or "valid records follow" not in str(fault):
            raise
        disk.release()
        wrong += await _wrong_in(disk, crash, durability, truncate=True)
    for left in second:
        where = f"{crash.where}, then call {at} of the start"
        wrong += await wrong_after(Crash(where, left, crash.facts), durability, None)
    return wrong


async def _wrong_in(disk: MemoryDisk, crash: Crash, durability: str, truncate: bool = False) -> list[str]:
    async with running_rig(None, PROPERTIES, durability, SyncedAtOnce(), truncate, disk=disk) as rig:
        await turn()
        return Inspection(rig, copy.deepcopy(crash.facts), KEPT_ID).wrong
