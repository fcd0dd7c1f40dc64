"""The broker's time in a test's hands: it can be moved on, stopped and set going again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.clock import Clock

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection
    from stuntbroker.broker.requests.router import Handler
    from stuntbroker.broker.server import Broker

KEPT_MS_MAX: Final = 5_000
"""How long requests are kept at most, of the machine's time: clients wait for 10 to 30 s for an answer."""
CALLS_AT_ONCE: Final = 100
"""After so many calls that come again and again, other clients get their turn."""


class TestClock(Clock):
    """The machine's time plus the amount that a test has advanced it; constant while paused."""

    __slots__ = ("_paused_at", "moved_ms")
    __test__ = False  # For pytest: its name begins as that of a test.

    def __init__(self) -> None:
        self.moved_ms = 0
        """By how much it was moved on, without the time that it has stood still."""
        self._paused_at: tuple[int, int] | None = None
        """The wall clock's and the monotonic clock's time at which it stands."""

    def now_ms(self) -> int:
        """Since 1970, as the test wants it."""
        return (super().now_ms() if self._paused_at is None else self._paused_at[0]) + self.moved_ms

    def monotonic_ms(self) -> int:
        """Since some moment, as the test wants it."""
        return (super().monotonic_ms() if self._paused_at is None else self._paused_at[1]) + self.moved_ms

    def client_ms(self) -> int:
        """The machine's time, which clients go on living in."""
        return super().monotonic_ms()

    @property
    def is_paused(self) -> bool:
        """Whether it stands still, but for being moved."""
        return self._paused_at is not None

    def pause(self) -> None:
        """Stand still. Nothing happens when it does already."""
        if self._paused_at is None:
            self._paused_at = super().now_ms(), super().monotonic_ms()

    def resume(self) -> None:
        """Go on from the time that it shows: what has passed meanwhile is left out."""
        if self._paused_at is not None:
            shown_ms = self.monotonic_ms()
            self._paused_at = None
            self.moved_ms = shown_ms - super().monotonic_ms()

    def set_to(self, now_ms: int, is_paused: bool) -> None:
        """Set the wall clock, and pause it or let it run from there. To be called before the clock is first read."""
        if is_paused:
            self.pause()
        self.moved_ms += now_ms - self.now_ms()

    def move_to(self, monotonic_ms: int) -> None:
        """Move on to a time, not back."""
        self.moved_ms += max(0, monotonic_ms - self.monotonic_ms())


class ClockControl:
    """Moves a broker's clock, and makes the calls that become due on the way.

    Clients live in the machine's time: what they ask meanwhile, they ask when it is over. Else each long poll that ends would be
    followed by the next one of its client, and an hour would be 7,200 of them.
    """

    def __init__(self, clock: TestClock, broker: Broker) -> None:
        self.clock = clock
        self._broker = broker
        self._timers = broker.timers
        self._one_at_a_time = asyncio.Lock()
        self._is_moving = False
        self._was_paused = False
        """Before time was moved, for as long as it is."""
        self._keeps = False
        """Whether requests are kept: not for longer than clients wait for an answer."""
        self._is_over = False
        """Whether the broker is gone."""
        self._waiting: list[tuple[Connection, Callable[[], None]]] = []
        """Requests that arrived while time is advanced, in order: (connection, function that handles it)."""

    @property
    def is_paused(self) -> bool:
        """Whether time stands still because a test wants it to, and not only for as long as it is moved."""
        return self._was_paused if self._is_moving else self.clock.is_paused

    def intercept(self, handle: Handler, connection: Connection, request: Any, version: int) -> Any:
        """Keep a request that comes while time is moved."""
        if self._is_over:
            return None
        if not self._keeps:
            return handle(connection, request, version)
        self._waiting.append((connection, partial(connection.handle_later, handle, request, version)))
        return None

    def forget(self) -> None:
        """Forget the requests that wait, and those to come: their broker ends."""
        self._waiting.clear()
        self._is_over = True

    def _release(self) -> None:
        """Handle the requests that wait, but those of a node that was stopped meanwhile."""
        self._keeps = False
        waiting, self._waiting = self._waiting, []
        for connection, handle in waiting:
            if self._broker.nodes.by_id[connection.listener.node_id].is_up:
                handle()

    async def advance(self, ms: int) -> None:
        """Let `ms` pass at once: each call is made at its own time, and what it sets in motion is done before the next one."""
        async with self._one_at_a_time:
            clock, timers, turn = self.clock, self._timers, self._broker.turn
            was_paused, moved_ms = clock.is_paused, clock.moved_ms + ms
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
                    clock.moved_ms = max(clock.moved_ms, moved_ms)
                timers.stand_still(was_paused)
                self._is_moving = False
                self._release()

    async def pause(self) -> None:
        """Stop the broker's time: nothing times out, expires or is cleaned until it is moved or goes on."""
        async with self._one_at_a_time:
            self.clock.pause()
            self._timers.stand_still(True)

    async def resume(self) -> None:
        """Let the broker's time go on from where it stands."""
        async with self._one_at_a_time:
            self.clock.resume()
            self._timers.stand_still(False)
