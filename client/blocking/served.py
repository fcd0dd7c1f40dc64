"""An asyncio object that is started, served and stopped in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from stuntbroker.client.blocking.claim import Claim
from stuntbroker.client.blocking.loop_thread import LoopThread
from stuntbroker.client.transactional_errors import IllegalStateError


class Stoppable(Protocol):
    """An object of asyncio that has to be stopped."""

    async def stop(self) -> None:
        """Close the connections."""


Twin = TypeVar("Twin", bound=Stoppable)


class Served(Generic[Twin]):
    """The asyncio twin of a blocking object, and the thread that serves it from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        """`name`: name of the object in messages and of the thread."""
        self._name = name
        self._thread: LoopThread | None = None
        self._twin: Twin | None = None
        self._claim = Claim()
        """Held by the call of `start` that runs, or has succeeded."""
        self._starting: asyncio.Task[Any] | None = None
        """The task that starts the twin, until that ends."""
        self._is_stopping = False

    @property
    def was_started(self) -> bool:
        """Whether the twin was started; it may be stopped by now."""
        return self._thread is not None and self._starting is None

    @property
    def is_running(self) -> bool:
        """Whether the twin is started and not stopped."""
        return self._twin is not None and not self._is_stopping

    @property
    def is_current(self) -> bool:
        """Whether the caller is a callback in the thread of a twin that is started."""
        return self._twin is not None and self._thread is not None and self._thread.is_current

    def start(self, begin: Callable[[], Coroutine[Any, Any, Twin]]) -> None:
        """Start a thread, and the twin in it. Raises what `begin` raises.

        Raises IllegalStateError the second time, and if another thread stops it meanwhile.
        """
        thread: LoopThread | None = None
        caller = object()
        try:
            if not self._claim.take(caller):
                raise IllegalStateError(f"start() of the {self._name}: called before")
            thread = self._thread = LoopThread(f"stuntbroker {self._name}")
            thread.call(lambda: self._start(begin))
        except BaseException:
            if thread is not None:
                thread.stop()
            if self._claim.is_of(caller) and not self._is_stopping:
                self._thread = self._twin = None
                self._claim.release(caller)
            raise

    async def _start(self, begin: Callable[[], Coroutine[Any, Any, Twin]]) -> None:
        assert self._thread is not None
        self._starting = asyncio.current_task()
        try:
            self._twin = await begin()
        finally:
            self._starting = None
        self._thread.exit_handlers.append(self._twin.stop)

    async def _stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._twin is not None:
            await self._twin.stop()

    def running(self) -> tuple[LoopThread, Twin]:
        """Return the thread and the twin. Raises IllegalStateError before `start` and after `stop`."""
        if self._thread is None or self._twin is None or self._is_stopping:
            raise IllegalStateError(f"call to the {self._name}: not started, or closed")
        return self._thread, self._twin

    def stop(self) -> None:
        """Stop the twin and the thread, also during `start`. May be called twice, and before `start`."""
        thread = self._thread
        if thread is None or self._is_stopping or not thread.is_running:
            return
        thread.check()
        self._is_stopping = True
        try:
            thread.call(self._stop)
        finally:
            thread.stop()
