"""An alarm clock that interrupts this thread wherever it is, as a time limit or Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

DROPPED_IN = ("__del__", "_remove", "gc_callback")
"""Functions that the garbage collector calls, including those of WeakSet and Hypothesis. Python ignores an exception in them
with a warning, which pytest turns into a failure.
"""


class Alarm(Exception):
    """The exception that the signal handler raises."""


@contextmanager
def alarm_clock(folder: str = "") -> Iterator[Callable[[float], None]]:
    """Yield a function that makes this thread raise Alarm after a number of seconds; 0 cancels the alarm.

    `folder`: raise only if the thread is running code of a file below this folder at that time.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        frames = []
        while frame is not None:
            frames.append(frame.f_code)
            frame = frame.f_back
        if not any(code.co_name in DROPPED_IN for code in frames) and any(
            folder in code.co_filename for code in frames
        ):
            raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield lambda after_s: signal.setitimer(signal.ITIMER_REAL, after_s) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
