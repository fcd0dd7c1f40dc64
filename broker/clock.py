"""The only place that reads a clock."""

from __future__ import annotations

import time


class Clock:
    """Wall time, in milliseconds since 1970."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
