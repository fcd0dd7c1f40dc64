"""Fixtures for a broker in this process, without sockets, whose clock moves only when a test advances it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from tests.kit.rig import Rig, running_rig
from tests.kit.stopping import Images


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    clock = TestClock()
    clock.pause()
    async with running_rig(tmp_path, clock=clock) as rig:
        rig.broker.timers.stand_still(True)
        yield rig


@pytest.fixture
def control(rig: Rig) -> Control:
    return Control(rig.broker)


@pytest.fixture
def images(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Images:
    return Images(tmp_path, tmp_path_factory.mktemp("images"))
