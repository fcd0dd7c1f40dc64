"""A coroutine that a thread hands to the event loop of another thread, and waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import TIMEOUT_MAX, Lock
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Handover(Generic[Result]):
    """A coroutine, handed over by one thread and run by another, and its outcome.

    A signal handler may raise an exception between any two steps of the thread that waits. A `concurrent.futures.Future` could
    then leave its lock locked, and the loop would hang. Here the waiting thread holds nothing that the loop needs: the only lock
    is released by the loop, once, and waited for by one thread.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> None:
        """`work` is called in the loop's thread."""
        self._work = work
        self._task: asyncio.Task[Result] | None = None
        self._is_given_up = False
        self.has_begun = False
        """Whether `begin` has run: the loop ends the coroutine then."""
        self._result: Result
        self._error: BaseException | None = None
        self._ended = Lock()
        self._ended.acquire()

    # --- in the loop's thread

    def begin(self) -> None:
        """Start the coroutine, unless its caller has given up."""
        if self._is_given_up:
            return
        self.has_begun = True
        try:
            self._task = asyncio.get_running_loop().create_task(self._work())
        except BaseException as fault:
            self.fail(fault)
            return
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Result]) -> None:
        # The task is freed in this thread: in the other one, an exception of a signal handler would be lost meanwhile.
        self._task = None
        self._error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self._error is None:
            self._result = task.result()
        self._ended.release()

    def fail(self, fault: BaseException) -> None:
        """End it with an error, because it cannot run."""
        self._error = fault
        self._ended.release()

    def cancel(self) -> None:
        """Cancel the coroutine, after `give_up`."""
        if self._task is not None:
            self._task.cancel()

    # --- in the thread that waits

    def give_up(self) -> None:
        """Note that nobody waits any more: a coroutine that has not started is not started."""
        self._is_given_up = True

    def wait(self, timeout_s: float | None) -> Result:
        """Wait for the result, or raise the error.

        Raises TimeoutError after `timeout_s`, asyncio.CancelledError if the loop has cancelled the coroutine.
        """
        if not self._ended.acquire(timeout=-1 if timeout_s is None else min(max(timeout_s, 0.0), TIMEOUT_MAX)):
            raise TimeoutError
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # Its traceback has this frame, and would keep it.
