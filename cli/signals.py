"""What SIGTERM does to a command that has something to tidy up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STEP_S_MAX: Final = 2.0
"""After so long a broker that does not answer keeps no command from ending."""


@contextmanager
def exit_at_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises SystemExit(143), also in the first process of a container, which would not hear of it.

    So `finally` clauses run, as by Ctrl-C.
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
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.status = 0
        """The exit status that it asks for, else 0."""

    def __bool__(self) -> bool:
        return self.status != 0


@contextmanager
def noting_sigterm() -> Iterator[Ended]:
    """Within the block SIGTERM is noted, for a loop that ends between two of its steps; it has STEP_S_MAX for that."""
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
