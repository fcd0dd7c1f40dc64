"""Marks for the compiler, mypyc: on classes, and on numbers of 64 bits. Where nothing is compiled, they have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64, mypyc_attr
else:
    i64 = int

    def mypyc_attr(**options):
        """Return a decorator that returns the class unchanged."""
        return lambda kind: kind


__all__ = ["i64", "mypyc_attr"]
