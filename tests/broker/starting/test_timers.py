"""Timers release the memory of cancelled calls before these are due."""

from __future__ import annotations

import asyncio
import gc

from stuntbroker.broker.clock import ManualClock
from stuntbroker.broker.timers import HEAP_SIZE_MIN, TimerHandle, Timers


def kept_handles() -> int:
    gc.collect()
    return sum(isinstance(each, TimerHandle) for each in gc.get_objects())


async def test_cancelled_calls_are_forgotten_before_they_are_due() -> None:
    timers = Timers(asyncio.get_running_loop(), ManualClock(0), lambda fault: None)
    before = kept_handles()
    waiting = [timers.call_later(1_000 + number, lambda: None) for number in range(300)]
    for _ in range(10_000):
        timers.call_later(1_000_000_000, lambda: None).cancel()
    assert kept_handles() - before <= 2 * len(waiting) + HEAP_SIZE_MIN
    timers.close()
