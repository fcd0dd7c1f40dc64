"""Timers of the broker: one heap of deadlines, and one timer of the event loop for the earliest."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, NamedTuple

from stuntbroker.broker.clock import Clock, ManualClock

HEAP_SIZE_MIN: Final = 128


class TimerHandle:
    """A scheduled call, which can be cancelled."""

    __slots__ = ("callback", "interval_ms", "wanted_at_ms")

    def __init__(self, callback: Callable[[], Any] | None) -> None:
        self.callback = callback
        self.interval_ms = 0
        self.wanted_at_ms: Callable[[], int | None] | None = None
        """Returns when a periodic call next has work, in monotonic ms; None: not until the broker's state changes."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after the call was made."""
        self.callback = None


class _Scheduled(NamedTuple):
    """An entry of the heap, in whose order entries compare."""

    due_ms: int
    number: int
    """Number of the entry: calls that are due at the same time are made in the order in which they were scheduled."""
    handle: TimerHandle


class Timers:
    """Schedules calls by the monotonic clock. A callback that fails is reported, and the others still run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, failed: Callable[[Exception], object]) -> None:
        """`failed` is called with the exception of a call that failed."""
        self.loop = loop
        self._failed = failed
        self.now_ms = clock.monotonic_ms
        """The clock of `call_at`, in monotonic ms."""
        self._heap: list[_Scheduled] = []
        self._heap_size_max = HEAP_SIZE_MIN
        """Number of entries at which the cancelled ones are removed: a long poll is often cancelled long before it is due."""
        self._number = 0
        self._armed: asyncio.TimerHandle | None = None
        self._armed_at = 0
        self._soon: deque[Callable[[], Any]] = deque()
        self.stands_still = False
        """True while the clock is stopped: `run_due` is not scheduled on the event loop."""

    def call_at(self, at_ms: int, callback: Callable[[], Any]) -> TimerHandle:
        """Schedule a call at a time, in ms of `now_ms`; a time in the past is due immediately."""
        handle = TimerHandle(callback)
        self._number += 1
        if len(self._heap) >= self._heap_size_max:
            self._remove_cancelled()
        heapq.heappush(self._heap, _Scheduled(at_ms, self._number, handle))
        if self._armed is None or at_ms < self._armed_at:
            self._arm()
        return handle

    def call_later(self, delay_ms: int, callback: Callable[[], Any]) -> TimerHandle:
        """Schedule a call in `delay_ms` from now."""
        return self.call_at(self.now_ms() + delay_ms, callback)

    def soon(self, callback: Callable[[], Any]) -> None:
        """Schedule a call for the next turn of the event loop, even while the clock stands still: for work in slices."""
        self._soon.append(callback)
        self.loop.call_soon(self._run_soon)

    def _run_soon(self) -> None:
        if self._soon:  # Not closed meanwhile.
            self._call(self._soon.popleft())

    @property
    def is_busy(self) -> bool:
        """Whether calls are scheduled for the next turn."""
        return bool(self._soon)

    def every(
        self,
        interval_ms: int | Callable[[], int],
        callback: Callable[[], Any],
        wanted_at_ms: Callable[[], int | None] | None = None,
    ) -> None:
        """Call periodically until `close`. An interval given as a function is evaluated before each call.

        `wanted_at_ms` returns the time before which a call has nothing to do (None: nothing until the broker's state
        changes), so that `next_due_ms` can skip such calls.
        """

        def begin() -> None:
            interval = interval_ms() if callable(interval_ms) else interval_ms
            handle = self.call_later(interval, tick)
            handle.interval_ms, handle.wanted_at_ms = interval, wanted_at_ms

        def tick() -> None:
            try:
                callback()
            finally:
                begin()

        begin()

    def _arm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed = None
        self._drop_cancelled()
        if not self._heap or self.stands_still:
            return
        self._armed_at = self._heap[0].due_ms
        delay_ms = max(0, self._armed_at - self.now_ms())
        self._armed = self.loop.call_later(delay_ms / 1_000, self.run_due)

    def _drop_cancelled(self) -> None:
        while self._heap and self._heap[0].handle.callback is None:
            heapq.heappop(self._heap)

    def _remove_cancelled(self) -> None:
        self._heap[:] = [entry for entry in self._heap if entry.handle.callback is not None]
        heapq.heapify(self._heap)
        self._heap_size_max = max(HEAP_SIZE_MIN, 2 * len(self._heap))

    def stand_still(self, stands_still: bool) -> None:
        """Suspend the timer of the event loop while the clock stands still, or resume it."""
        self.stands_still = stands_still
        self._arm()

    def next_due_ms(self, until_ms: int) -> int | None:
        """Return when the next call is due that has something to do; None if that is later than `until_ms`.

        Postpones idle periodic calls to that time and no further, because the next call may give them something to do.
        Used by a manual clock that advances from call to call.
        """
        heap = self._heap
        next_ms = until_ms + 1
        idle: list[tuple[int, int, TimerHandle]] = []
        while True:
            self._drop_cancelled()
            if not heap or heap[0].due_ms >= next_ms:
                break
            due_ms, _, handle = heap[0]
            wanted_ms = due_ms if handle.wanted_at_ms is None else handle.wanted_at_ms()
            wanted_ms = until_ms + 1 if wanted_ms is None else _first_tick(due_ms, handle.interval_ms, wanted_ms)
            next_ms = min(next_ms, wanted_ms)
            if wanted_ms == due_ms:
                break
            heapq.heappop(heap)
            idle.append((wanted_ms, due_ms, handle))
        # Among calls due at the same time, the one that has something to do runs first.
        for _, due_ms, handle in sorted(idle, key=itemgetter(0)):
            self._number += 1
            next_tick_ms = _first_tick(due_ms, handle.interval_ms, next_ms)
            heapq.heappush(heap, _Scheduled(next_tick_ms, self._number, handle))
        return None if next_ms > until_ms else next_ms

    @property
    def is_next_periodic(self) -> bool:
        """Whether the next call is a periodic one."""
        return bool(self._heap) and self._heap[0].handle.interval_ms > 0

    def run_next(self) -> None:
        """Make the next call, whether it is due or not. There must be one."""
        callback = heapq.heappop(self._heap).handle.callback
        if callback is not None:
            self._call(callback)
        self._arm()

    def run_due(self) -> None:
        """Make the calls that are due."""
        if self._armed is not None:
            self._armed.cancel()
        self._armed = None
        now_ms = self.now_ms()
        heap = self._heap
        while heap and heap[0].due_ms <= now_ms:
            callback = heapq.heappop(heap).handle.callback
            if callback is not None:
                self._call(callback)
        self._arm()

    def _call(self, callback: Callable[[], Any]) -> None:
        """Make a call; report its exception, so that other calls still run."""
        try:
            callback()
        except Exception as fault:
            self._failed(fault)

    def pass_time(self, clock: ManualClock, ms: int) -> None:
        """Advance the manual clock of these timers, and make the calls that are due.

        The calls are made in the order of their due times, and all of them see the final time of the clock.
        """
        clock.ms += ms
        self.run_due()

    def close(self) -> None:
        """Cancel all calls."""
        self._heap.clear()
        self._soon.clear()
        if self._armed is not None:
            self._armed.cancel()


def _first_tick(due_ms: int, interval_ms: int, not_before_ms: int) -> int:
    """Return the first tick at or after `not_before_ms` of a periodic call that is due at `due_ms`."""
    interval_ms = max(1, interval_ms)
    return due_ms + max(0, -(-(not_before_ms - due_ms) // interval_ms)) * interval_ms
