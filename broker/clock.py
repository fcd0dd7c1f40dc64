"""The only place that reads a clock.

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
