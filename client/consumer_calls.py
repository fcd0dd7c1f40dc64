"""AIOKafkaConsumer with the errors of this package: calls at the wrong time raise IllegalStateError, which is no KafkaError."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from aiokafka.errors import ConsumerStoppedError
from aiokafka.errors import IllegalStateError as AiokafkaIllegalStateError

from stuntbroker.client.consumer_types import ConsumerBase
from stuntbroker.client.producer.errors import IllegalStateError

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
    read or change something raise aiokafka's ConsumerStoppedError.
    """

    _group_name: str

    def _check_open(self, name: str, *, needs_start: bool) -> None:
        if self._closed:
            raise ConsumerStoppedError(f"{name}(): the consumer of group {self._group_name!r} is stopped")
        if needs_start and self._fetcher is None:
            raise IllegalStateError(f"{name}(): the consumer of group {self._group_name!r} is not started")

    def _illegal(self, name: str, fault: Exception) -> IllegalStateError:
        why = fault.args[0] if fault.args else "no partitions are assigned"
        return IllegalStateError(f"{name}() of the consumer of group {self._group_name!r}: {why}")


def _checked(name: str, call: Callable[..., Any], needs_start: bool) -> Callable[..., Any]:
    """Return a method that checks the consumer's state first, and translates the errors of aiokafka's method."""

    @functools.wraps(call)
    async def wait(self: CheckedConsumer, *arguments: Any, **options: Any) -> Any:
        self._check_open(name, needs_start=needs_start)
        try:
            return await call(self, *arguments, **options)
        except (AiokafkaIllegalStateError, AssertionError) as fault:
            raise self._illegal(name, fault) from None

    @functools.wraps(call)
    def run(self: CheckedConsumer, *arguments: Any, **options: Any) -> Any:
        self._check_open(name, needs_start=needs_start)
        try:
            return call(self, *arguments, **options)
        except (AiokafkaIllegalStateError, AssertionError) as fault:
            raise self._illegal(name, fault) from None

    return wait if inspect.iscoroutinefunction(call) else run


for _name in (*_NEED_A_START, *_BEFORE_START_TOO):
    setattr(CheckedConsumer, _name, _checked(_name, getattr(ConsumerBase, _name), _name in _NEED_A_START))
