"""The core reads no clock, rolls no dice, opens nothing and is never async."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from house_sources import ROOMS, ROOT, files_of, imports_of, tree_of

PURE_ROOMS = ("protocol", "coordinator", "groups")
IMPURE_FILES: frozenset[str] = frozenset()
"""Files of the pure rooms that may perform: `room/file.py`."""
OUTSIDE_WORLD = {
    "asyncio", "concurrent", "multiprocessing", "os", "random", "secrets", "select", "selectors", "signal", "socket",
    "ssl", "structlog", "subprocess", "threading", "time", "uvloop",
}  # fmt: skip
ALLOWED = {("protocol/crc.py", "os.path.exists"), ("protocol/crc.py", "os.path.join")}
"""The CRC extension is looked for in the path of modules."""
READS_THE_CLOCK = {"broker", "cli", "client"}
"""Rooms that may: they hand time and chance to the others as arguments."""
TIME_AND_CHANCE = {"time", "random", "secrets"}
CALLS = {
    "now": {"datetime"}, "utcnow": {"datetime"}, "today": {"datetime", "date"},
    "uuid1": {"uuid"}, "uuid4": {"uuid"}, "urandom": {"os"}, "getrandom": {"os"},
}  # fmt: skip
"""Method -> the modules or classes of which it reads the clock or rolls dice."""


def is_pure(path: Path) -> bool:
    return path.parts[0] in PURE_ROOMS and str(path) not in IMPURE_FILES


PURE_FILES = [path for path in files_of(*PURE_ROOMS) if is_pure(path)]


def test_a_file_that_is_excepted_exists() -> None:
    assert [path for path in IMPURE_FILES if not (ROOT / path).is_file()] == []
    assert [path for path, _ in ALLOWED if not (ROOT / path).is_file()] == []


def test_the_core_imports_nothing_of_the_outside_world() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in PURE_FILES
        for line, name in imports_of(path)
        if name.split(".")[0] in OUTSIDE_WORLD and (str(path), name) not in ALLOWED
    ]

    assert wrong == []


def test_the_core_is_never_async() -> None:
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    wrong = [
        f"{path}:{node.lineno}" for path in PURE_FILES for node in ast.walk(tree_of(path)) if isinstance(node, waits)
    ]

    assert wrong == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in READS_THE_CLOCK])
def test_only_a_room_at_the_edge_reads_the_clock_and_rolls_dice(room: str) -> None:
    wrong = []
    for path in files_of(room):
        for line, name in imports_of(path):
            if name.split(".")[0] in TIME_AND_CHANCE:
                wrong.append(f"{path}:{line} imports {name}")
            if name.split(".")[-1] in ("uuid1", "uuid4", "urandom", "getrandom"):
                wrong.append(f"{path}:{line} imports {name}")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and node.attr in CALLS:
                owner = ast.unparse(node.value).split(".")[-1]
                if owner in CALLS[node.attr]:
                    wrong.append(f"{path}:{node.lineno} uses {ast.unparse(node)}")

    assert wrong == []
