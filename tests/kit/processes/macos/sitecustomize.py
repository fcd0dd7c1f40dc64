"""Takes from every Python process that has this folder in PYTHONPATH what macOS does not have.

Besides names of modules: the files in /proc, and a limit of open files as high as its hard limit, which is infinite there.
"""

from __future__ import annotations

import builtins
import fcntl
import importlib
import os
import resource
import selectors
from typing import Any

from missing_on_macos import missing_names

F_FULLFSYNC = 51
INFINITY = 2**63 - 1
OPEN_FILES_MAX = 61_440

_open, _fcntl, _getrlimit, _setrlimit = builtins.open, fcntl.fcntl, resource.getrlimit, resource.setrlimit
_open_files = 256


def _without_proc(path: Any, *args: Any, **options: Any) -> Any:
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", path)
    return _open(path, *args, **options)


def _with_full_sync(fd: int, command: int, argument: Any = 0) -> Any:
    return os.fsync(fd) if command == F_FULLFSYNC else _fcntl(fd, command, argument)


def _limits(which: int) -> tuple[int, int]:
    return (_open_files, INFINITY) if which == resource.RLIMIT_NOFILE else _getrlimit(which)


def _set_limits(which: int, limits: tuple[int, int]) -> None:
    global _open_files
    if which != resource.RLIMIT_NOFILE:
        _setrlimit(which, limits)
    elif limits[0] > OPEN_FILES_MAX:
        raise ValueError("current limit exceeds maximum limit")
    else:
        _open_files = limits[0]


for _module, _names in missing_names().items():
    for _place in (importlib.import_module(_module), importlib.import_module({"os": "posix"}.get(_module, _module))):
        for _name in _names:
            if hasattr(_place, _name):
                delattr(_place, _name)
selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
builtins.open = _without_proc
fcntl.F_FULLFSYNC = F_FULLFSYNC  # type: ignore[attr-defined]
fcntl.fcntl = _with_full_sync
resource.RLIM_INFINITY = INFINITY  # type: ignore[misc]
resource.getrlimit, resource.setrlimit = _limits, _set_limits  # type: ignore[assignment]
