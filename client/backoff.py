"""How the time between two attempts of a repeated request grows."""

from __future__ import annotations

from typing import Final

BACKOFF_S_MAX: Final = 1.0


def next_backoff_s(backoff_s: float) -> float:
    """Return the time to wait before the next attempt, in seconds: twice as long as before the last one, up to BACKOFF_S_MAX."""
    return min(2 * backoff_s, BACKOFF_S_MAX)
