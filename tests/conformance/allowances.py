"""Where the two may differ, by name and with the reason. Everything else that differs is a mistake of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


def _any(kafka: Any, ours: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Allowance:
    reason: str
    where: str
    """A regular expression over `case | step | path`."""
    holds: Callable[[Any, Any], bool] = _any


ALLOWANCES: Final[dict[str, Allowance]] = {}
