"""Marks on classes for the compiler, mypyc. Where nothing is compiled, they have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**options):
        """Return a decorator that returns the class unchanged."""
        return lambda kind: kind


__all__ = ["mypyc_attr"]
