"""The only place that reads a clock, and a clock that a test moves.

| reading | for | a step of the machine's clock |
|---|---|---|
| `now_ms` | what is stored or told: timestamps, when a transaction began, what expires by such a time | is seen, as in Kafka |
| `monotonic_ms` | how long something lasts: timers, sessions, long polls, silence | is not seen |

Both are readings of one object, so that whoever moves time moves them together.
"""

from __future__ import annotations

import time


class Clock:
    """The machine's time, in milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Since some moment; never goes back."""
        return time.monotonic_ns() // 1_000_000

    def client_ms(self) -> int:
        """`monotonic_ms` as clients see it: how long one has been silent. A test that moves the clock does not move this."""
        return self.monotonic_ms()


class ManualClock(Clock):
    """A clock that stands still until it is moved. `Timers.pass_time` moves it and makes the calls that become due."""

    __slots__ = ("ms", "stepped_ms")

    def __init__(self, start_ms: int) -> None:
        self.ms = start_ms
        """The time since 1970."""
        self.stepped_ms = start_ms
        """How far the wall clock is ahead of the monotonic one, which begins at 0."""

    def now_ms(self) -> int:
        """The time that it was moved to."""
        return self.ms

    def monotonic_ms(self) -> int:
        """The time that has passed since it was made."""
        return self.ms - self.stepped_ms

    def step(self, ms: int) -> None:
        """Set the wall clock forward or back, as an administrator does: no time passes."""
        self.ms += ms
        self.stepped_ms += ms
