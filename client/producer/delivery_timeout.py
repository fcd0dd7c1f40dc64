"""The delivery time-out (`delivery_timeout_ms`): records that are not acknowledged in time fail, sent or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from stuntbroker.client.producer.batches import Batch
from stuntbroker.client.transactional_errors import ProducerError

CHECK_S_MIN: Final = 0.05
"""Minimum seconds between two checks for expired batches."""


class DeliveryTimeout:
    """A timer that is due when the oldest batch expires."""

    def __init__(self, timeout_s: float, due: Callable[[], None]) -> None:
        """`due`: called when batches may have expired. Needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._due = due
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, oldest: Callable[[], list[Batch]]) -> None:
        """Set the timer, unless it is set. `oldest`: returns the oldest batch of each partition."""
        if self._timer is None:
            now_s = self._loop.time()
            oldest_s = min((batch.created_s for batch in oldest()), default=now_s)
            due_s = max(CHECK_S_MIN, oldest_s + self._timeout_s - now_s)
            self._timer = self._loop.call_later(due_s, self._fail_overdue)

    def _fail_overdue(self) -> None:
        self._timer = None
        self._due()

    def is_over(self, batch: Batch) -> bool:
        """Return whether a batch has expired."""
        return self._loop.time() >= batch.created_s + self._timeout_s

    def error(self, batch: Batch) -> ProducerError:
        """Return the error for an expired batch."""
        fault, queue = batch.last_fault, batch.queue
        what = f"Produce to {queue.topic}-{queue.partition}: "
        text = f"{what}not delivered within {self._timeout_s:g} s"
        if fault is None:
            return ProducerError(text)
        error = ProducerError(f"{text}; last error: {fault.args[0].removeprefix(what)}")
        error.__cause__ = fault
        return error

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
