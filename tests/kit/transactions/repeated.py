"""Calls of a producer that may time out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from stuntbroker.client import OperationTimedOutError

Result = TypeVar("Result")


async def repeated(call: Callable[[], Awaitable[Result]]) -> Result:
    """Make a call again after each time-out, and return its result: a busy machine may need more time than a test gives it."""
    while True:
        with suppress(OperationTimedOutError):
            return await call()


def repeated_blocking(call: Callable[[], Result]) -> Result:
    """Do the same with a call of the producer for threads."""
    while True:
        with suppress(OperationTimedOutError):
            return call()
