"""`serve --exit-with-parent`: notices that the process which started this one has ended, however it ended."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Final

CHECK_S: Final = 0.5
"""Polling interval where the kernel sends no notification, in seconds."""


_server_id: int | None = None
"""Process id of the fork server that has forked this process; None if another process has started it."""


def set_fork_server(process_id: int) -> None:
    """Name the parent of a forked process: it may have been killed before the process can ask who its parent is."""
    global _server_id
    _server_id = process_id


def watch_parent(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    """Call `ended` from the loop once the parent has ended, or once it closes its end of standard input.

    The kernel reports the first with process descriptors (Linux 5.3), the second if standard input is a pipe or a socket.
    Without process descriptors, the parent's id is polled every CHECK_S seconds.
    """
    parent_id = os.getppid() if _server_id is None else _server_id
    if _is_pipe(0):
        os.set_blocking(0, False)
        loop.add_reader(0, _read_to_end, loop, ended)
    try:
        loop.add_reader(os.pidfd_open(parent_id), ended)
        if os.getppid() != parent_id:  # It has ended, and another process may have its id now.
            loop.call_soon(ended)
    except (AttributeError, OSError):  # Not Linux, an old kernel, or the parent has already ended.
        _compare_later(loop, parent_id, ended)


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # It was closed before we were started.
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read_to_end(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    try:
        data = os.read(0, 4096)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if not data:
        loop.remove_reader(0)
        ended()


def _compare_later(loop: asyncio.AbstractEventLoop, parent_id: int, ended: Callable[[], None]) -> None:
    if os.getppid() != parent_id:
        ended()
    else:
        loop.call_later(CHECK_S, _compare_later, loop, parent_id, ended)
