"""AIOKafkaConsumer with the errors of this package: calls at the wrong time raise IllegalStateError, which is no KafkaError."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.errors import IllegalStateError as AiokafkaIllegalStateError

from stuntbroker.client.consumer.errors import ConsumerErrors
from stuntbroker.client.consumer.types import ConsumerBase, TopicPartition
from stuntbroker.client.transactional_errors import AuthenticationError, IllegalStateError

_NEED_A_START: Final = [
    "getone",
    "getmany",
    "commit",
    "committed",
    "position",
    "seek_to_beginning",
    "seek_to_end",
    "seek_to_committed",
    "beginning_offsets",
    "end_offsets",
    "offsets_for_times",
    "topics",
    "seek",
]
"""Calls that send requests, or wait for the responses to those of background tasks."""
_READING: Final = ("getone", "getmany")
"""Calls that wait for the fetcher only, and need no task to be interrupted."""
_OF_PARTITIONS: Final = frozenset(
    {"getone", "getmany", "pause", "resume", "seek_to_beginning", "seek_to_end", "seek_to_committed"}
)
"""Calls with any number of partitions as arguments."""
_OF_A_PARTITION: Final = frozenset(
    {"committed", "position", "seek", "highwater", "last_stable_offset", "last_poll_timestamp"}
)
"""Calls whose first argument is a partition."""
_BEFORE_START_TOO: Final = [
    "assign",
    "subscribe",
    "unsubscribe",
    "pause",
    "resume",
    "highwater",
    "last_stable_offset",
    "last_poll_timestamp",
]


class CheckedConsumer(ConsumerBase):
    """AIOKafkaConsumer whose calls fail at once if the consumer is not started, or stopped.

    Calls at the wrong time, such as a seek in a partition that is not assigned, raise IllegalStateError. After `stop`, calls that
    read or change something raise aiokafka's ConsumerStoppedError. Other errors of aiokafka are translated (`errors`).
    """

    _group_name: str
    _loop: asyncio.AbstractEventLoop

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._errors = ConsumerErrors(options["group_id"])
        self._refusal: AuthenticationError | None = None
        """Why the client and a broker have not accepted each other when they connected last; None if they have."""
        self._until_refused: set[asyncio.Future[None]] = set()
        """Futures of waiting calls, which end with the refusal."""

    def _check_open(self, name: str, *, needs_start: bool) -> None:
        if self._closed:
            raise ConsumerStoppedError(f"{name}(): the consumer of group {self._group_name!r} is stopped")
        self._check_loop(name)
        if needs_start and self._fetcher is None:
            raise IllegalStateError(f"{name}(): the consumer of group {self._group_name!r} is not started")
        if needs_start and self._refusal is not None:
            raise self._refusal.with_traceback(None)

    def _check_loop(self, name: str) -> None:
        """Raise IllegalStateError in another event loop, or none. `name`: name of the method."""
        if asyncio._get_running_loop() is not self._loop:
            raise IllegalStateError(
                f"{name}(): the consumer of group {self._group_name!r} belongs to the event loop in which it was created"
            )

    def _authenticated(self, refusal: AuthenticationError | None) -> None:
        """Store the outcome of the latest authentication. A refusal ends the calls that wait: aiokafka tries for ever."""
        self._refusal = refusal
        if refusal is not None:
            fetch_waiters = () if self._fetcher is None else tuple(self._fetcher._fetch_waiters)
            for waiter in (*self._until_refused, *fetch_waiters):
                if not waiter.done():
                    waiter.set_exception(refusal)

    async def _unless_refused(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a call. Raises AuthenticationError if authentication fails meanwhile."""
        refused = self._loop.create_future()
        self._until_refused.add(refused)
        task = asyncio.ensure_future(call)
        try:
            await asyncio.wait({task, refused}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                refused.result()
            return task.result()
        finally:
            self._until_refused.discard(refused)
            refused.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            for ended in (task, refused):
                if not ended.cancelled():
                    ended.exception()  # asyncio would log an error that was not retrieved.

    def _illegal(self, name: str, fault: Exception) -> IllegalStateError:
        why = fault.args[0] if fault.args else "no partitions are assigned"
        return IllegalStateError(f"{name}() of the consumer of group {self._group_name!r}: {why}")


def _with_partitions(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call with its partitions as TopicPartitions. Raises TypeError for what is no partition."""
    count = len(arguments) if name in _OF_PARTITIONS else min(1, len(arguments)) if name in _OF_A_PARTITION else 0
    return (*(_partition_of(name, each) for each in arguments[:count]), *arguments[count:])


def _partition_of(name: str, value: Any) -> TopicPartition:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int):
        return TopicPartition(*value)
    advice = "each is an argument of its own" if name in _OF_PARTITIONS else "or (topic, partition)"
    raise TypeError(f"{name}(): a partition is a TopicPartition, {advice}; not {value!r:.60}")


def _checked(name: str, call: Callable[..., Any], needs_start: bool) -> Callable[..., Any]:
    """Return a method that checks arguments and the consumer's state first, and translates the errors of aiokafka's method."""

    @functools.wraps(call)
    async def wait(self: CheckedConsumer, *arguments: Any, **options: Any) -> Any:
        self._check_open(name, needs_start=needs_start)
        if name == "getone" and self._subscription.subscription is None:  # It would wait for ever.
            raise IllegalStateError(f"{name}() of the consumer of group {self._group_name!r}: it has no subscription")
        error: Exception
        try:
            waiting = call(self, *_with_partitions(name, arguments), **options)
            return await (waiting if name in _READING else self._unless_refused(waiting))
        except (AiokafkaIllegalStateError, AssertionError) as fault:
            error = self._illegal(name, fault)
        except KafkaError as fault:
            error = self._errors.translated(fault)
        raise error  # Not in the handlers: it may be a cause of the handled error.

    @functools.wraps(call)
    def run(self: CheckedConsumer, *arguments: Any, **options: Any) -> Any:
        self._check_open(name, needs_start=needs_start)
        try:
            return call(self, *_with_partitions(name, arguments), **options)
        except (AiokafkaIllegalStateError, AssertionError) as fault:
            raise self._illegal(name, fault) from None

    return wait if inspect.iscoroutinefunction(call) else run


for _name in (*_NEED_A_START, *_BEFORE_START_TOO):
    setattr(CheckedConsumer, _name, _checked(_name, getattr(ConsumerBase, _name), _name in _NEED_A_START))
