"""The only place that reads the system clock, but for the time of log lines; and a manual clock for tests.

| reading | for | effect of a step of the machine's clock |
|---|---|---|
| `now_ms` | stored times and times in responses: timestamps, start of a transaction, expiry | the time steps too, as in Kafka |
| `monotonic_ms` | durations: timers, sessions, long polls, idle clients | none |

One object returns both, so that a test moves them together.
"""

from __future__ import annotations

import time

from stuntbroker.protocol.compiler import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """The machine's time, in milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary moment; never goes back."""
        return time.monotonic_ns() // 1_000_000

    def monotonic_at_ms(self, at_ms: int) -> int:
        """Return what `monotonic_ms` will be at a wall-clock time, if nobody sets the wall clock before."""
        return at_ms - self.now_ms() + self.monotonic_ms()

    def client_ms(self) -> int:
        """Return `monotonic_ms` for measuring how long a client has been silent; the clock of `control` does not move it."""
        return self.monotonic_ms()


class ManualClock(Clock):
    """A clock that stands still until a test moves it. `Timers.pass_time` moves it and runs the timers that become due."""

    __slots__ = ("ms", "stepped_ms")

    def __init__(self, start_ms: int) -> None:
        self.ms = start_ms
        """Wall-clock time in milliseconds since 1970."""
        self.stepped_ms = start_ms
        """Milliseconds by which the wall clock is ahead of the monotonic clock, which starts at 0."""

    def now_ms(self) -> int:
        """Return the wall-clock time that the clock was moved to."""
        return self.ms

    def monotonic_ms(self) -> int:
        """Return the milliseconds that have passed since the clock was created."""
        return self.ms - self.stepped_ms

    def step(self, ms: int) -> None:
        """Step the wall clock forward or back, as an administrator does; the monotonic clock does not move."""
        self.ms += ms
        self.stepped_ms += ms
