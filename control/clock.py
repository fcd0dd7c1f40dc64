"""The broker's clock under a test's control: advance, pause and resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.clock import Clock

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import (
        HasClock,
        HasConnections,
        HasNodes,
        HasTimers,
        HasTurn,
    )

    class Uses(HasClock, HasConnections, HasNodes, HasTimers, HasTurn, Protocol):
        """Parts of the broker that this module uses."""


KEPT_MS_MAX: Final = 5_000
"""Maximum time in ms, by the system clock, to keep requests waiting; clients time out after 10 to 30 s."""
CALLS_AT_ONCE: Final = 100
"""Number of periodic calls after which the event loop gets a turn."""


class TestClock(Clock):
    """The system's time plus the amount that a test has advanced it; constant while paused."""

    __slots__ = ("_paused_at", "ahead_ms")
    __test__ = False  # For pytest: its name begins as that of a test.

    def __init__(self) -> None:
        self.ahead_ms = 0
        """Milliseconds by which a test has advanced the clock, less the time that it was paused."""
        self._paused_at: tuple[int, int] | None = None
        """Wall-clock and monotonic ms at which the clock was paused; None while it runs."""

    def now_ms(self) -> int:
        """Return the controlled wall-clock time in ms since 1970."""
        return (super().now_ms() if self._paused_at is None else self._paused_at[0]) + self.ahead_ms

    def monotonic_ms(self) -> int:
        """Return the controlled monotonic time in ms."""
        return (super().monotonic_ms() if self._paused_at is None else self._paused_at[1]) + self.ahead_ms

    def client_ms(self) -> int:
        """Return the system's monotonic ms: clients are not affected by the controlled time."""
        return super().monotonic_ms()

    @property
    def is_paused(self) -> bool:
        """Whether the clock is paused; it can still be advanced."""
        return self._paused_at is not None

    def pause(self) -> None:
        """Pause the clock; has no effect if it is paused already."""
        if self._paused_at is None:
            self._paused_at = super().now_ms(), super().monotonic_ms()

    def resume(self) -> None:
        """Resume the clock from the time that it shows, without the time that has passed since."""
        if self._paused_at is not None:
            shown_ms = self.monotonic_ms()
            self._paused_at = None
            self.ahead_ms = shown_ms - super().monotonic_ms()

    def set_to(self, now_ms: int, is_paused: bool) -> None:
        """Set the wall clock, and pause it or let it run from there. Call this before the clock is first read."""
        if is_paused:
            self.pause()
        self.ahead_ms += now_ms - self.now_ms()

    def move_to(self, monotonic_ms: int) -> None:
        """Advance the clock to a monotonic time; it never goes back."""
        self.ahead_ms += max(0, monotonic_ms - self.monotonic_ms())


class ClockControl:
    """Advances a broker's clock, and runs the timers that become due on the way.

    Requests that arrive meanwhile are handled afterwards. Otherwise each long poll that ends would be followed by the next one
    of its client, and an hour would have 7,200 of them.
    """

    def __init__(self, clock: TestClock, broker: Uses) -> None:
        self.clock = clock
        self._broker = broker
        self._timers = broker.timers
        self._one_at_a_time = asyncio.Lock()
        self._is_moving = False
        self._was_paused = False
        """While the clock is advanced: whether it was paused before."""
        self._keeps = False
        """Whether arriving requests are kept, for at most KEPT_MS_MAX."""
        self._is_over = False
        """Whether the broker has ended."""
        self._waiting: list[tuple[ClientRequest, Callable[[], None]]] = []
        """Kept requests in the order of arrival: (request, function that handles it)."""

    @property
    def is_paused(self) -> bool:
        """Whether a test has paused the clock; a pause while it is advanced does not count."""
        return self._was_paused if self._is_moving else self.clock.is_paused

    def intercept(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        """Handle a request, or keep it while the clock is advanced."""
        if self._is_over:
            return None
        if not self._keeps:
            return handle(request, body, version)
        self._waiting.append((request, partial(request.handle_later, handle, body, version)))
        return None

    def forget(self) -> None:
        """Drop the kept requests and all later ones, as the broker ends."""
        self._waiting.clear()
        self._is_over = True

    def _release(self) -> None:
        """Handle the kept requests, except those of nodes that were stopped meanwhile."""
        self._keeps = False
        waiting, self._waiting = self._waiting, []
        for request, handle in waiting:
            if self._broker.nodes.by_id[request.listener.node_id].is_up:
                handle()

    async def advance(self, ms: int) -> None:
        """Advance the clock by `ms`; each timer runs at its own time, and its consequences are complete before the next one."""
        async with self._one_at_a_time:
            clock, timers, turn = self.clock, self._timers, self._broker.turn
            was_paused, ahead_ms = clock.is_paused, clock.ahead_ms + ms
            self._is_moving = self._keeps = True
            self._was_paused = was_paused
            kept_until_ms = clock.client_ms() + KEPT_MS_MAX
            clock.pause()  # However long it takes, only `ms` pass.
            timers.stand_still(True)
            target_ms = clock.monotonic_ms() + ms
            calls = 0
            try:
                while (due_ms := timers.next_due_ms(target_ms)) is not None:
                    clock.move_to(due_ms)
                    is_periodic = timers.is_next_periodic
                    timers.run_next()
                    calls += 1
                    if turn.armed or not is_periodic or timers.is_busy or not calls % CALLS_AT_ONCE:
                        await asyncio.sleep(0)
                        if self._keeps and clock.client_ms() >= kept_until_ms:
                            self._release()
                    while timers.is_busy:
                        await asyncio.sleep(0)
                clock.move_to(target_ms)
            finally:
                if not was_paused:
                    clock.resume()
                    clock.ahead_ms = max(clock.ahead_ms, ahead_ms)
                timers.stand_still(was_paused)
                self._is_moving = False
                self._release()

    async def pause(self) -> None:
        """Pause the clock: nothing times out, expires or is cleaned until it is advanced or resumed."""
        async with self._one_at_a_time:
            self.clock.pause()
            self._timers.stand_still(True)

    async def resume(self) -> None:
        """Resume the clock from the time that it shows."""
        async with self._one_at_a_time:
            self.clock.resume()
            self._timers.stand_still(False)
