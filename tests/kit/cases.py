"""Many small cases in one test: a test of pytest costs milliseconds by itself, which thousands of cases would add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SHOWN_MAX = 10


def check_each(cases: Iterable[tuple[str, tuple[Any, ...]]], check: Callable[..., None]) -> None:
    """Call `check` with the arguments of every (name, arguments); raise all failures as one, each with the name of its case."""
    count = 0
    failures: list[Exception] = []
    for name, arguments in cases:
        count += 1
        try:
            check(*arguments)
        except Exception as failure:
            failure.add_note(f"case: {name}")
            failures.append(failure)
    assert count, "there is no case"
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} cases", failures[:SHOWN_MAX])
