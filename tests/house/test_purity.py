"""The core uses no clock, randomness, I/O or async code; in the broker, only one file each uses the clock and randomness."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from house_sources import ROOMS, ROOT, files_of, imports_of, tree_of, uses_of

PURE_ROOMS = ("protocol", "coordinator", "groups")
IMPURE_FILES: frozenset[str] = frozenset()
"""Files (`room/file.py`) of the pure rooms that may perform I/O."""
OUTSIDE_WORLD = {
    "asyncio", "concurrent", "fcntl", "glob", "io", "mmap", "multiprocessing", "os", "pathlib", "random", "resource", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "ssl", "structlog", "subprocess", "tempfile", "threading", "time",
    "urllib", "uvloop",
}  # fmt: skip
OUTSIDE_BUILTINS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}
ALLOWED = {("protocol/crc.py", "os.path.exists"), ("protocol/crc.py", "os.path.join")}
"""protocol/crc.py looks up the CRC extension in the module path."""
READS_THE_CLOCK = {"fixture", "cli", "client"}
"""Rooms that may read the clock, besides the one file of the broker; they pass time and randomness to others as arguments."""
CLOCK = Path("broker/clock.py")
DICE = Path("broker/random_source.py")
TIMES = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.process_time", "time.process_time_ns", "time.thread_time", "time.clock_gettime", "time.clock_gettime_ns",
    "time.gmtime", "time.localtime", "time.ctime", "time.strftime", "time.sleep", "os.times",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today", ".time",
}  # fmt: skip
"""`.time` is the method of the event loop."""
CHANCE = {"os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4"}


def is_pure(path: Path) -> bool:
    return path.parts[0] in PURE_ROOMS and str(path) not in IMPURE_FILES


PURE_FILES = [path for path in files_of(*PURE_ROOMS) if is_pure(path)]


def reaches_out(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, name) of every use of I/O, clocks or randomness, resolved to its module."""
    actual = []
    for line, name in uses_of(tree):
        first, _, remaining = name.partition(".")
        if first in OUTSIDE_WORLD or (first == "builtins" and remaining in OUTSIDE_BUILTINS) or name in TIMES | CHANCE:
            actual.append((line, name))
    return actual


def reads_a_clock(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, name) for line, name in uses_of(tree) if name in TIMES]


def rolls_dice(tree: ast.Module) -> list[tuple[int, str]]:
    return [
        (line, name) for line, name in uses_of(tree) if name in CHANCE or name.split(".")[0] in ("random", "secrets")
    ]


# --- that what is looked for is found

PLANTED_IN_THE_CORE = {
    "open() of the builtins": "def f():\n    return open('/etc/passwd').read()",
    "open() under another name": "read = open",
    "open() beside a method of that name": "class File:\n    def open(self):\n        return open('x')",
    "an import by name": "T = __import__('time').time()",
    "a lazy import": "def f():\n    from os import listdir\n    return listdir('.')",
    "a module under another name": "import socket as s\nX = s.socket()",
    "a function that is handed on": "from time import time_ns as now\ndef f(clock=now): ...",
    "a path": "from pathlib import Path\nX = Path('x').read_bytes()",
    "the date": "from datetime import datetime\nX = datetime.now()",
    "an id": "import uuid\nX = uuid.uuid4()",
}
PLANTED_CLOCKS = {
    "time_ns": "import time\ndef z():\n    return time.time_ns()",
    "under another name": "import time as t\nX = t.monotonic()",
    "lazily": "def z():\n    from time import perf_counter\n    return perf_counter()",
    "of the event loop": "import asyncio\ndef z():\n    return asyncio.get_running_loop().time()",
    "the date": "import datetime\nX = datetime.datetime.now()",
    "handed on": "import time\ndef z(now=time.time): ...",
}
INNOCENT = {
    "a method that is called open": "class File:\n    def open(self): ...\ndef f(file):\n    return file.open()",
    "a function of our own": "def open(): ...\nX = open()",
    "a field that is called time": "def f(record):\n    return record.time_ms",
    "an argument": "def f(time):\n    return time + 1",
}


@pytest.mark.parametrize("source", PLANTED_IN_THE_CORE.values(), ids=PLANTED_IN_THE_CORE)
def test_a_use_of_the_outside_world_is_detected(source: str) -> None:
    assert reaches_out(ast.parse(source))


@pytest.mark.parametrize("source", PLANTED_CLOCKS.values(), ids=PLANTED_CLOCKS)
def test_a_reading_of_a_clock_is_found(source: str) -> None:
    assert reads_a_clock(ast.parse(source))


@pytest.mark.parametrize("source", INNOCENT.values(), ids=INNOCENT)
def test_harmless_code_is_not_reported_as_impure(source: str) -> None:
    assert (reaches_out(ast.parse(source)), reads_a_clock(ast.parse(source))) == ([], [])


# --- the house


def test_a_file_that_is_excepted_exists() -> None:
    assert [path for path in IMPURE_FILES if not (ROOT / path).is_file()] == []
    assert [path for path, _ in ALLOWED if not (ROOT / path).is_file()] == []
    assert reads_a_clock(tree_of(CLOCK)) != []
    assert rolls_dice(tree_of(DICE)) != []


def test_the_core_imports_nothing_of_the_outside_world() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in PURE_FILES
        for line, name in imports_of(path)
        if name.split(".")[0] in OUTSIDE_WORLD and (str(path), name) not in ALLOWED
    ]

    assert wrong == []


def test_the_core_uses_nothing_of_the_outside_world() -> None:
    wrong = [
        f"{path}:{line} uses {name}"
        for path in PURE_FILES
        for line, name in reaches_out(tree_of(path))
        if (str(path), name) not in ALLOWED
    ]

    assert wrong == []


def test_the_core_is_never_async() -> None:
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    wrong = [
        f"{path}:{node.lineno}" for path in PURE_FILES for node in ast.walk(tree_of(path)) if isinstance(node, waits)
    ]

    assert wrong == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in READS_THE_CLOCK])
def test_a_clock_is_read_in_one_file_only(room: str) -> None:
    wrong = [
        f"{path}:{line} uses {name}"
        for path in files_of(room)
        for line, name in reads_a_clock(tree_of(path))
        if path != CLOCK
    ]

    assert wrong == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in READS_THE_CLOCK])
def test_randomness_is_used_in_one_file_only(room: str) -> None:
    wrong = [
        f"{path}:{line} uses {name}"
        for path in files_of(room)
        for line, name in rolls_dice(tree_of(path))
        if path != DICE
    ]

    assert wrong == []


DISKS = {Path("storage/disk.py"), Path("storage/memory_disk.py")}
TOUCHES_FILES = ("os.", "mmap.", "fcntl.", "shutil.", "pathlib.", "tempfile.", "io.")


OUTSIDE_THE_FOLDER = {
    Path("broker/connections/connection.py"): "memory of large requests",
    Path("broker/connections/listener.py"): "the container's addresses",
    Path("broker/housekeeping.py"): "a spare file descriptor",
    Path("broker/observation/events.py"): "an environment variable",
    Path("broker/random_source.py"): "random bytes",
    Path("broker/security/listener_security.py"): "the file of JAAS",
    Path("broker/stale_folders.py"): "folders of other brokers",
    Path("broker/temporary_folder.py"): "an environment variable",
    Path("control/documents.py"): "plans",
    Path("control/rules/stops.py"): "ends the process",
}
"""Files that use the system for something else than the data folder."""
USES_DISK = [path for path in files_of("storage", "broker", "control") if path not in DISKS | OUTSIDE_THE_FOLDER.keys()]


@pytest.mark.parametrize("path", USES_DISK, ids=str)
def test_files_of_a_data_folder_are_reached_through_the_disk_only(path: Path) -> None:
    """Elsewhere, a link would be followed, and a disk in memory passed by."""
    assert [
        (line, name)
        for line, name in uses_of(tree_of(path))
        if name in ("open", "builtins.open") or name.startswith(TOUCHES_FILES)
    ] == []
