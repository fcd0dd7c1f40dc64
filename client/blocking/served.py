"""An asyncio object that is started, served and stopped in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from stuntbroker.client.blocking.loop_thread import LoopThread
from stuntbroker.client.producer.errors import IllegalStateError


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

    @property
    def was_started(self) -> bool:
        """Whether the twin was started; it may be stopped by now."""
        return self._thread is not None

    @property
    def is_running(self) -> bool:
        """Whether the twin is started and not stopped."""
        return self._twin is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller is a callback in the thread of a twin that is started."""
        return self._twin is not None and self._thread is not None and self._thread.is_current

    def start(self, begin: Callable[[], Coroutine[Any, Any, Twin]]) -> None:
        """Start a thread, and the twin in it. Raises what `begin` raises, and IllegalStateError the second time."""
        if self._thread is not None:
            raise IllegalStateError(f"start() of the {self._name}: called before")
        thread = LoopThread(f"stuntbroker {self._name}")
        try:
            self._twin = thread.call(begin)
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        thread.exit_handlers.append(self._twin.stop)

    def running(self) -> tuple[LoopThread, Twin]:
        """Return the thread and the twin. Raises IllegalStateError before `start` and after `stop`."""
        if self._thread is None or self._twin is None:
            raise IllegalStateError(f"call to the {self._name}: not started, or closed")
        return self._thread, self._twin

    def stop(self) -> None:
        """Stop the twin and the thread. May be called twice, and before `start`."""
        thread, twin = self._thread, self._twin
        if thread is None or twin is None or not thread.is_running:
            return
        thread.check()
        self._twin = None
        try:
            thread.call(twin.stop)
        finally:
            thread.stop()
