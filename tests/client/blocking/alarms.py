"""An alarm clock that interrupts this thread wherever it is, as a time limit or Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

DROPPED_IN = ("__del__", "_remove", "gc_callback")
"""Functions that the garbage collector calls, also those of a WeakSet and of Hypothesis: Python drops an exception in them, with
a warning, which pytest makes a failure.
"""


class Alarm(Exception):
    """What the signal handler raises."""


@contextmanager
def alarm_clock(folder: str = "") -> Iterator[Callable[[float], None]]:
    """A function that makes this thread raise Alarm after so many seconds; 0: it does not.

    `folder`: only if it runs code of a file below such a folder then.
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
