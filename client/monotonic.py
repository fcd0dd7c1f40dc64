"""The monotonic clock for time-outs, which no test can stop: libraries such as freezegun replace `time.monotonic`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

monotonic_s: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else time.monotonic
)
