"""Calls that take time: each goes on in the background when its caller gives up, and the same call waits on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stuntbroker.client.producer.errors import (
    IllegalStateError,
    OperationTimedOutError,
    ProducerError,
    UnexpectedError,
)
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import Call, State

Result = TypeVar("Result")


class _Pending:
    """A call that has not ended, or whose result was not returned yet."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call: Call, work: Coroutine[Any, Any, Any], argument: object = None
    ) -> None:
        self.call = call
        self.argument = argument
        self._loop = loop
        self._waiters: list[asyncio.Future[bool]] = []
        self.task: asyncio.Task[Any] = loop.create_task(self._run(work))  # An eager task runs at once.
        self.task.add_done_callback(self._end)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until the call has ended; return whether it has. It goes on when whoever waits gives up.

        This is asyncio.wait for one task, with two turns of the event loop less.
        """
        if self.task.done():
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, _resolve, waiter, False)
        self._waiters.append(waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await work
        finally:
            self._wake()

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Nobody need call again: asyncio would complain of an error that was not looked at."""
        if not task.cancelled():
            task.exception()
        self._wake()  # For a task that was cancelled before it ran.

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _resolve(waiter, True)


class Calls:
    """The call of one producer that is under way, if there is one."""

    _loop: asyncio.AbstractEventLoop  # Held since `open`: before Python 3.12, to ask for it is a system call.

    def __init__(self, session: Session, max_block_ms: int) -> None:
        self.is_open = False
        """Whether the producer is started and not closed."""
        self._session = session
        self._max_block_s = max_block_ms / 1000
        self._pending: _Pending | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        """What calls wait for that may be given up."""

    def open(self) -> None:
        """Take calls from now on, on the event loop that runs."""
        self._loop = asyncio.get_running_loop()
        self.is_open = True

    @property
    def pending(self) -> Call | None:
        """The call that has not ended, or whose result was not returned yet."""
        return None if self._pending is None else self._pending.call

    def check(self, call: Call) -> None:
        """Raise what the state says about a call, and IllegalStateError while another one is under way."""
        self.check_open(call.value)
        if self._pending is not None:
            before, name = self._pending.call.value, self._session.transactional_id
            what = "has not ended" if not self._pending.task.done() else "has ended, and nobody has taken its result"
            raise IllegalStateError(f"{call.value}(): {before}() of producer {name!r} {what}; call that again")
        self._session.check(call)

    def check_open(self, name: str) -> None:
        """Raise IllegalStateError for a producer that is not started, or closed. `name`: of the method."""
        if not self.is_open:
            raise IllegalStateError(f"{name}(): producer {self._session.transactional_id!r} is not started, or closed")

    async def run(
        self, call: Call, state: State, work: Callable[[], Coroutine[Any, Any, Result]], argument: object = None
    ) -> Result:
        """Go to a state and do the work of a call there, or wait on for it if it was begun, with the same argument.

        Raises OperationTimedOutError, and what the work raises.
        """
        if self._pending is None or self._pending.call is not call:
            self.check(call)
            self._session.move(state)  # At once: until the task runs, the sender may report a failure.
            self._pending = _Pending(self._loop, call, self.guard(work()), argument)
        pending = self._pending
        if pending.argument != argument:
            raise IllegalStateError(f"{call.value}() has not ended, and was called with another argument: repeat that")
        if not await pending.wait(self._max_block_s):
            raise self._timed_out(call.value, ": call it again")
        result: Result = self._result(pending)
        return result

    async def run_alone(self, call: Call, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work of a call during which no other may be made. Whoever gives it up ends it. Raises as `run` does."""
        pending = self._pending = _Pending(self._loop, call, self.guard(work))
        try:
            if not await pending.wait(self._max_block_s) and not pending.task.done():
                raise self._timed_out(call.value)
            result: Result = self._result(pending)
            return result
        finally:
            pending.task.cancel()
            if self._pending is pending:
                self._pending = None

    def _result(self, pending: _Pending) -> Any:
        if self._pending is pending:
            self._pending = None
        if pending.task.cancelled():
            raise self._closed_meanwhile(pending.call.value)
        return pending.task.result()

    async def guard(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Make whatever this client did not expect a fatal error."""
        try:
            return await work
        except (ProducerError, IllegalStateError):
            raise
        except Exception as fault:
            error = UnexpectedError(f"{self._session.transactional_id!r}: {fault!r}")
            error.__cause__ = fault
            self._session.fail_fatal(error)
            raise error from fault

    async def within(self, name: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Do work that may be given up. Raises OperationTimedOutError."""
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        try:
            # Not asyncio.wait_for: before Python 3.12, it takes a result that comes at the same time for a cancellation's end.
            await asyncio.wait({task}, timeout=self._max_block_s)
        finally:
            self._waiting.discard(task)
            is_late = not task.done()
            if is_late:
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # asyncio would complain that nobody has looked at it, when this is cancelled.
        if task.cancelled():
            raise self._timed_out(name) if is_late else self._closed_meanwhile(name)
        return task.result()

    def _timed_out(self, name: str, advice: str = "") -> OperationTimedOutError:
        text = f"{name}() of {self._session.transactional_id!r} has not ended within {self._max_block_s:g} s{advice}"
        last_fault = self._session.last_fault
        error = OperationTimedOutError(text if last_fault is None else f"{text} (last: {last_fault.args[0]})")
        error.__cause__ = last_fault
        return error

    def _closed_meanwhile(self, name: str) -> IllegalStateError:
        return IllegalStateError(f"{name}(): producer {self._session.transactional_id!r} was closed meanwhile")

    async def wait(self) -> None:
        """Wait for the end of the call that is under way, and forget it."""
        if self._pending is not None:
            await asyncio.wait({self._pending.task})
            self._pending = None

    async def close(self) -> None:
        """Cancel the call that is under way. No other can be made."""
        self.is_open = False
        for task in tuple(self._waiting):
            task.cancel()
        if self._pending is not None:
            self._pending.task.cancel()
            await asyncio.wait({self._pending.task})


def _resolve(waiter: asyncio.Future[bool], has_ended: bool) -> None:
    if not waiter.done():
        waiter.set_result(has_ended)
