"""Caches on the hot path: dicts of bounded size for values that repeat from request to request."""

from __future__ import annotations

from typing import Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

CACHED_MAX: Final = 1_000
"""Maximum entries of a cache. Alternating clients need fewer; clients that do not repeat themselves would not gain by more."""


def keep(cache: dict[Key, Value], key: Key, value: Value, size_max: int = CACHED_MAX) -> Value:
    """Store and return a value. A full cache is emptied first, so that look-ups need no bookkeeping."""
    if len(cache) >= size_max:
        cache.clear()
    cache[key] = value
    return value
