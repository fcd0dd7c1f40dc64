"""Run many small cases in one test, as each pytest test costs milliseconds, which add up over thousands of cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SHOWN_MAX = 10


def check_each(cases: Iterable[tuple[str, tuple[Any, ...]]], check: Callable[..., None]) -> None:
    """Call `check` with the arguments of each case; raise an ExceptionGroup of all failures, noting the names of the cases."""
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
