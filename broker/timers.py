"""One heap of deadlines for everything that waits, and one timer of the event loop for all of it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

from stuntbroker.broker.clock import Clock, ManualClock


class TimerHandle:
    """A call that is due at some time, and can be cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], Any] | None) -> None:
        self.callback = callback

    def cancel(self) -> None:
        """Have the call not made. Nothing happens when it was made."""
        self.callback = None


class Timers:
    """`call_at(ms, callback)`, by the clock that never steps; a callback that fails is reported and stops no other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop = loop
        self.now_ms = clock.monotonic_ms
        """The time that `call_at` means."""
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._number = 0
        self._armed: asyncio.TimerHandle | None = None
        self._armed_at = 0

    def call_at(self, at_ms: int, callback: Callable[[], Any]) -> TimerHandle:
        """Call back at a time, in ms of `now_ms`; at once when it is over."""
        handle = TimerHandle(callback)
        self._number += 1
        heapq.heappush(self._heap, (at_ms, self._number, handle))
        if self._armed is None or at_ms < self._armed_at:
            self._arm()
        return handle

    def call_later(self, delay_ms: int, callback: Callable[[], Any]) -> TimerHandle:
        """Call back in `delay_ms` from now."""
        return self.call_at(self.now_ms() + delay_ms, callback)

    def every(self, interval_ms: int | Callable[[], int], callback: Callable[[], Any]) -> None:
        """Calls again and again, for as long as the timers live. An interval that may change is asked for each time."""

        def tick() -> None:
            try:
                callback()
            finally:
                self.call_later(interval_ms() if callable(interval_ms) else interval_ms, tick)

        self.call_later(interval_ms() if callable(interval_ms) else interval_ms, tick)

    def _arm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        if not self._heap:
            self._armed = None
            return
        self._armed_at = self._heap[0][0]
        delay_ms = max(0, self._armed_at - self.now_ms())
        self._armed = self.loop.call_later(delay_ms / 1_000, self.run_due)

    def run_due(self) -> None:
        """Make the calls whose time has come."""
        if self._armed is not None:
            self._armed.cancel()
        self._armed = None
        now_ms = self.now_ms()
        heap = self._heap
        try:
            while heap and heap[0][0] <= now_ms:
                callback = heapq.heappop(heap)[2].callback
                if callback is not None:
                    callback()
        finally:
            self._arm()

    def pass_time(self, clock: ManualClock, ms: int) -> None:
        """Move a manual clock on, which must be the one of these timers, and make the calls that have become due.

        They are made in the order of their times, and all of them see the time to which the clock was moved.
        """
        clock.ms += ms
        self.run_due()

    def close(self) -> None:
        """Cancel all calls."""
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()
