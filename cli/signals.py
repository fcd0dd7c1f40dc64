"""Handling of SIGTERM in commands that have to clean up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STEP_S_MAX: Final = 2.0
"""Maximum seconds from SIGTERM to the end of a command, even if a broker does not answer."""


@contextmanager
def exit_at_sigterm() -> Iterator[None]:
    """Raise SystemExit(143) on SIGTERM within the block, so that `finally` clauses run, as on Ctrl-C.

    This also works in process 1 of a container, which ignores SIGTERM without a handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Ended:
    """Flag that is true after SIGTERM."""

    def __init__(self) -> None:
        self.status = 0
        """Exit status after SIGTERM; 0 before."""

    def __bool__(self) -> bool:
        return self.status != 0


@contextmanager
def noting_sigterm() -> Iterator[Ended]:
    """Set the yielded flag on SIGTERM within the block, for a loop that checks it; after STEP_S_MAX, raise SystemExit."""
    ended = Ended()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return

    def note(number: int, _frame: object) -> None:
        ended.status = 128 + number
        signal.setitimer(signal.ITIMER_REAL, STEP_S_MAX)

    def give_up(_number: int, _frame: object) -> None:
        raise SystemExit(ended.status)

    before = signal.signal(signal.SIGTERM, note), signal.signal(signal.SIGALRM, give_up)
    try:
        yield ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGALRM, before[1])
