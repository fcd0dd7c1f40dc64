"""What SIGTERM does to a command that has something to tidy up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
