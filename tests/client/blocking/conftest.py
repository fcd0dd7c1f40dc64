"""A broker in memory, under both transaction versions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from model_broker import ModelBroker

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "producer"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def broker(request: pytest.FixtureRequest) -> Iterator[ModelBroker]:
    from model_broker import ModelBroker

    with ModelBroker(request.param) as broker:
        yield broker


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Yield a function that makes this thread raise Alarm after a number of seconds, in any code; 0 cancels the alarm."""
    from alarms import alarm_clock

    with alarm_clock() as clock:
        yield clock
