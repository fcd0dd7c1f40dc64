"""Long calls: each continues in the background when its caller gives up; repeating the call waits for it again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import Any, Final, TypeVar
from weakref import WeakSet

from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import Call, State
from stuntbroker.client.transactional_errors import (
    IllegalStateError,
    OperationTimedOutError,
    ProducerError,
    UnexpectedError,
)

Result = TypeVar("Result")
NO_THREAD: Final = 0
"""The id of no thread."""


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
        """Wait until the call has ended; return whether it has. The call continues if the wait is cancelled.

        Equivalent to asyncio.wait for one task, with two iterations of the event loop fewer.
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
        """Retrieve the error, which asyncio would log if the call is never repeated."""
        if not task.cancelled():
            task.exception()
        self._wake()  # For a task that was cancelled before it ran.

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _resolve(waiter, True)


class Calls:
    """The pending call of one producer, if there is one."""

    # Set by `open`.
    _process_id: int
    _loop: asyncio.AbstractEventLoop  # Before Python 3.12, get_running_loop makes a system call.

    def __init__(self, session: Session, max_block_ms: int) -> None:
        self.is_open = False
        """Whether the producer is started and not closed."""
        self.thread_id = NO_THREAD
        """Id of the thread of the event loop; NO_THREAD while the producer is not open, and in a forked process."""
        self.threads_send = False
        """Whether other threads than that of the event loop may send."""
        self.has_undelivered_state = False
        """Whether a signal interrupted the blocking twin before it returned the result of prepare_transaction."""
        self._session = session
        self._max_block_s = max_block_ms / 1000
        self._pending: _Pending | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        """Tasks of `within`, which `close` cancels."""

    def open(self) -> None:
        """Accept calls from now on, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._process_id = os.getpid()
        self.thread_id = get_ident()
        self.is_open = True
        _opened.add(self)

    @property
    def pending(self) -> Call | None:
        """The call that has not ended, or whose result was not returned yet."""
        return None if self._pending is None else self._pending.call

    def check(self, call: Call) -> None:
        """Raise the error of a call that the state does not allow; IllegalStateError while another call is pending."""
        if call is Call.SEND:  # Threads of the blocking twin send too.
            self.check_open(call)
        else:
            self.check_loop(call)
        if self._pending is not None:
            before, name = self._pending.call, self._session.transactional_id
            what = (
                "has not ended" if not self._pending.task.done() else "has ended, and its result was not returned yet"
            )
            raise IllegalStateError(f"{call}(): {before}() of producer {name!r} {what}; call that again")
        self._session.check(call)

    def check_open(self, name: str) -> None:
        """Raise IllegalStateError if the producer is not started, or closed. `name`: name of the method."""
        if not self.is_open:
            raise IllegalStateError(f"{name}(): producer {self._session.transactional_id!r} is not started, or closed")

    def check_loop(self, name: str, *, is_sending: bool = False) -> None:
        """Raise IllegalStateError if not open, in another event loop than that of `start`, or if that has ended.

        `name`: name of the method. `is_sending`: any thread may call it if `threads_send`.
        """
        self.check_open(name)
        is_foreign = get_ident() != self.thread_id and not (is_sending and self.threads_send)
        if not is_foreign and self._loop.is_running():
            return
        what = f"{name}(): producer {self._session.transactional_id!r} belongs to"
        if os.getpid() != self._process_id:
            raise IllegalStateError(
                f"{what} process {self._process_id}, not to its child {os.getpid()}: make a new one after the fork"
            )
        raise IllegalStateError(f"{what} the event loop in which it was started")

    async def run(
        self, call: Call, state: State, work: Callable[[], Coroutine[Any, Any, Result]], argument: object = None
    ) -> Result:
        """Enter a state and run the work of a call; if the same call, with the same argument, is pending, wait for it instead.

        Raises OperationTimedOutError after `max_block_ms`, and the errors of the work.
        """
        if self._pending is not None:
            self.check_loop(call)
        if self._pending is None or self._pending.call is not call:
            self.check(call)
            self._session.move(state)  # Not in the task: before it runs, the sender may report a failure.
            self._pending = _Pending(self._loop, call, self.guard(work()), argument)
        pending = self._pending
        if pending.argument != argument:
            text = f"{call}() has not ended, and was called with another argument: repeat the call with that argument"
            raise IllegalStateError(text)
        if not await pending.wait(self._max_block_s):
            raise self._timed_out(call, ": call it again")
        result: Result = self._result(pending)
        return result

    async def run_alone(self, call: Call, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run the work of a call that excludes all others, and is cancelled when its caller gives up. Raises as `run` does.

        If the caller is cancelled when the work has just succeeded, the result stays pending: repeating the call returns it.
        """
        if self._pending is not None and self.is_undelivered(call):
            return self._result(self._pending)  # type: ignore[no-any-return]
        self.check(call)
        pending = self._pending = _Pending(self._loop, call, self.guard(work()))
        try:
            if not await pending.wait(self._max_block_s) and not pending.task.done():
                raise self._timed_out(call)
            return self._result(pending)  # type: ignore[no-any-return]
        finally:
            pending.task.cancel()
            if self._pending is pending and not self.is_undelivered(call):
                self._pending = None

    def is_undelivered(self, call: Call) -> bool:
        """Whether a call has succeeded, and its result was not returned, because the caller was cancelled."""
        pending = self._pending
        if pending is None or pending.call is not call or not pending.task.done() or pending.task.cancelled():
            return False
        return pending.task.exception() is None

    @property
    def is_prepared_state_lost(self) -> bool:
        """Whether the transaction is prepared, and the application has no state by which to complete it."""
        if self.is_undelivered(Call.PREPARE_TRANSACTION):
            return True
        return self.has_undelivered_state and self._session.state is State.PREPARED_TRANSACTION

    def drop_undelivered(self, call: Call) -> None:
        """Forget the result of a call, so that another call may follow."""
        if self.is_undelivered(call):
            self._pending = None

    def _result(self, pending: _Pending) -> Any:
        if self._pending is pending:
            self._pending = None
        if pending.task.cancelled():
            raise self._closed_meanwhile(pending.call)
        return pending.task.result()

    async def guard(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run work, and turn an unexpected exception into a fatal UnexpectedError."""
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
        """Run work that is cancelled after `max_block_ms`. Raises OperationTimedOutError; IllegalStateError as `check_loop`."""
        try:
            self.check_loop(name)
        except IllegalStateError:
            work.close()
            raise
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        try:
            # Not asyncio.wait_for: before Python 3.12, it may swallow a cancellation that comes together with the result.
            await asyncio.wait({task}, timeout=self._max_block_s)
        finally:
            self._waiting.discard(task)
            is_late = not task.done()
            if is_late:
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # Otherwise asyncio would log the exception when this is cancelled.
        if task.cancelled():
            raise self._timed_out(name) if is_late else self._closed_meanwhile(name)
        return task.result()

    def _timed_out(self, name: str, advice: str = "") -> OperationTimedOutError:
        text = f"{name}() of {self._session.transactional_id!r} has not ended within {self._max_block_s:g} s{advice}"
        last = self._session.last_fault or self._session.fault_of_records()
        error = OperationTimedOutError(text if last is None else f"{text} (last: {last.args[0]})")
        error.__cause__ = last
        return error

    def _closed_meanwhile(self, name: str) -> IllegalStateError:
        return IllegalStateError(f"{name}(): producer {self._session.transactional_id!r} was closed meanwhile")

    async def wait(self) -> None:
        """Wait until the pending call has ended, and drop its result."""
        if self._pending is not None:
            await asyncio.wait({self._pending.task})
            self._pending = None

    async def close(self) -> None:
        """Cancel the pending call, and accept no more calls."""
        self.is_open = False
        self.thread_id = NO_THREAD
        for task in tuple(self._waiting):
            task.cancel()
        if self._pending is not None:
            self._pending.task.cancel()
            await asyncio.wait({self._pending.task})


_opened: Final[WeakSet[Calls]] = WeakSet()
"""Calls of the producers that are, or were, open in this process."""


def _disown() -> None:
    """Let no thread of a forked child use a producer of its parent, with which it shares the connections."""
    for calls in _opened:
        calls.thread_id = NO_THREAD


os.register_at_fork(after_in_child=_disown)


def _resolve(waiter: asyncio.Future[bool], has_ended: bool) -> None:
    if not waiter.done():
        waiter.set_result(has_ended)
