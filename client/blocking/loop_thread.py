"""An event loop in a thread of its own, to which other threads of the process hand coroutines."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from aiokafka.errors import KafkaError

from stuntbroker.client.blocking.handover import Handover
from stuntbroker.client.logger import log
from stuntbroker.client.transactional_errors import IllegalStateError

Result = TypeVar("Result")
Options = ParamSpec("Options")
EXIT_S_MAX: Final = 2.0
"""How long, in seconds, the exit of the process waits for all exit handlers together, and then for all threads."""
ExitHandler = Callable[[], Coroutine[Any, Any, object]]


def same_options(twin: Callable[Options, object]) -> Callable[..., Callable[Concatenate[Any, Options], None]]:
    """Return a decorator that gives an `__init__` the parameters and the docstring of the asyncio class `twin`."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, Options], None]:
        return cast(Callable[Concatenate[Any, Options], None], wraps(twin.__init__)(init))

    return decorate


def _new_loop() -> asyncio.AbstractEventLoop:
    if not _has_standard_streams():
        return asyncio.new_event_loop()
    try:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    except ImportError:  # No wheel for this system: asyncio's own loop does the same, slower.
        loop = asyncio.new_event_loop()
    return loop


def _has_standard_streams() -> bool:
    """Whether descriptors 0 to 2 are open. If not, uvloop's own descriptors get these numbers, and libuv aborts the process."""
    try:
        for descriptor in range(3):
            os.fstat(descriptor)
    except OSError:
        return False
    return True


class _Outcome(NamedTuple):
    """How a call has ended."""

    key: tuple[object, ...]
    result: Any
    error: Exception | None


class Delivery:
    """Stores the outcome of a call until its caller has it: a signal handler may raise an exception while the caller waits.

    The asyncio producer has returned the outcome by then, so that it cannot return it again.
    """

    def __init__(self) -> None:
        self._outcome: _Outcome | None = None

    def call(
        self,
        thread: LoopThread,
        key: Callable[[], tuple[object, ...]],
        work: Callable[[], Coroutine[Any, Any, Result]],
        repeatable: tuple[type[Exception], ...],
    ) -> Result:
        """Run a coroutine in the thread, unless its outcome is stored. Return its result, or raise its error.

        `key`: returns the name of the call, and what else identifies it; it is called in the thread. `repeatable`: errors that
        are not stored, because the call can be repeated.
        """
        outcome = thread.call(lambda: self._run(key, work, repeatable))
        try:
            if outcome.error is not None:
                raise outcome.error
            result: Result = outcome.result
            return result
        finally:
            self._outcome = None

    def holds(self, name: str) -> bool:
        """Whether the result of a call with this name was not returned, because a signal interrupted its caller."""
        outcome = self._outcome
        return outcome is not None and outcome.error is None and outcome.key[0] == name

    async def _run(
        self,
        key: Callable[[], tuple[object, ...]],
        work: Callable[[], Coroutine[Any, Any, Any]],
        repeatable: tuple[type[Exception], ...],
    ) -> _Outcome:
        outcome = self._outcome  # Read once: a thread that has received its own sets this to None at any time.
        if outcome is None or outcome.key != key():
            result, error = None, None
            try:
                result = await work()
            except repeatable:
                raise
            except Exception as fault:
                error = fault
            outcome = self._outcome = _Outcome(key(), result, error)
        return outcome


class LoopThread:
    """An event loop in a thread of its own. Usable only in the process that created it: a forked child lacks the thread."""

    def __init__(self, name: str) -> None:
        """Start the thread. `name`: name of the thread, also used in messages."""
        self.name = name
        self.loop = _new_loop()
        self.exit_handlers: list[ExitHandler] = []
        """Called in the loop, in reverse order, when the process exits: they close what was not stopped before."""
        self._pid = os.getpid()
        self._handovers: set[Handover[Any]] = set()
        """Calls that have not returned. No lock: each step of this class may be interrupted by a signal handler's exception."""
        self._is_stopping = False
        self.has_ended = False
        """Whether the thread has ended."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        assert self._thread.ident is not None
        self.ident = self._thread.ident
        """Id of the thread (`threading.get_ident`)."""
        _running.add(self)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process created the thread, and is not a fork of that process."""
        return self._pid == os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs, in this process."""
        return self.is_of_this_process and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller is a callback in the loop's own thread."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """Raise IllegalStateError in a forked process, and in the loop's own thread, which would wait for itself."""
        if not self.is_of_this_process:
            raise IllegalStateError(f"{self.name} belongs to process {self._pid}: create a new one after the fork")
        if self.is_current:
            raise IllegalStateError(f"{self.name}: a callback cannot make a call that waits")

    def call(self, work: Callable[[], Coroutine[Any, Any, Result]], timeout_s: float | None = None) -> Result:
        """Run a coroutine in the loop; return its result or raise its error. It is cancelled when the caller stops waiting.

        Raises TimeoutError after `timeout_s`, IllegalStateError if another thread stops this one meanwhile.
        """
        self.check()
        handover = Handover(work)
        has_ended = False
        try:
            self._handovers.add(handover)
            if self._is_stopping:  # Asked after `add`: what the loop no longer begins, the end of the thread fails.
                raise IllegalStateError(f"{self.name} is closed")
            with suppress(RuntimeError):  # The loop was closed just now; the end of the thread fails the call.
                self.loop.call_soon_threadsafe(handover.begin)
            result = handover.wait(timeout_s)
            has_ended = True
            return result
        except asyncio.CancelledError:
            raise IllegalStateError(f"{self.name} was closed meanwhile") from None
        finally:
            if not has_ended:
                handover.give_up()
                with suppress(RuntimeError):  # The loop is closed.
                    self.loop.call_soon_threadsafe(handover.cancel)
            self._handovers.discard(handover)

    def stop(self) -> None:
        """End the loop and its thread. Does nothing in a forked process, or when called again."""
        if self.is_running:
            _running.discard(self)
            self._stop_loop()
            self._thread.join()

    def _stop_loop(self) -> None:
        self._is_stopping = True
        with suppress(RuntimeError):  # Another thread has stopped it, and the loop is closed.
            self.loop.call_soon_threadsafe(self.loop.stop)

    async def _exit(self) -> None:
        for handler in reversed(self.exit_handlers):
            try:
                await handler()
            except (TimeoutError, KafkaError, OSError) as fault:
                log.debug("%s: not closed at the end of the process: %r", self.name, fault)

    def begin_exit(self) -> Future[None]:
        """Begin to call the exit handlers; return the future of their end."""
        return asyncio.run_coroutine_threadsafe(self._exit(), self.loop)

    def end_exit(self, timeout_s: float) -> None:
        """Stop the thread, which must not outlive the interpreter."""
        self._stop_loop()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._is_stopping = self.has_ended = True
            while tasks := asyncio.all_tasks(self.loop):  # Threads that wait for one of the tasks have to see its end.
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.wait(tasks))
            for handover in tuple(self._handovers):
                if not handover.has_begun:
                    handover.fail(asyncio.CancelledError())
            self.loop.close()


_running: Final[set[LoopThread]] = set()
"""The threads that were not stopped."""


@atexit.register
def _stop_at_exit() -> None:
    """Close the connections of all threads, at the same time, and stop the threads. Transactions are left open."""
    threads = [thread for thread in tuple(_running) if thread.is_running]
    exits = [thread.begin_exit() for thread in threads]
    _, pending = wait(exits, EXIT_S_MAX)
    if pending:
        log.debug("%s threads have not closed their connections at the end of the process", len(pending))
    deadline_s = time.monotonic() + EXIT_S_MAX
    for thread in threads:
        thread.end_exit(max(0.0, deadline_s - time.monotonic()))
