"""Caches on the hot path: dicts of what repeats from request to request, each of a bounded size."""

from __future__ import annotations

from typing import Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

CACHED_MAX: Final = 1_000
"""Entries of a cache. Clients that take turns have fewer; those that never repeat themselves gain nothing by more."""


def keep(cache: dict[Key, Value], key: Key, value: Value, size_max: int = CACHED_MAX) -> Value:
    """Store and return a value. A full cache is emptied first: a look-up then costs nothing but the look-up."""
    if len(cache) >= size_max:
        cache.clear()
    cache[key] = value
    return value
