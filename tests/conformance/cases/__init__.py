"""The cases to run on both brokers. A case is a function that takes one side."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tests.conformance.compare import Case

GROUPS: Final[dict[str, list[Case]]] = {}
"""Module -> its cases, in order of definition."""

for _info in iter_modules(__path__):
    _module = import_module(f"{__name__}.{_info.name}")
    GROUPS[_info.name] = [
        value
        for name, value in vars(_module).items()
        if callable(value) and getattr(value, "__module__", None) == _module.__name__ and not name.startswith("_")
    ]
