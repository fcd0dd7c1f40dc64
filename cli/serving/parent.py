"""What a broker shares with the process that started it: the end of that process, and the ports that a fork server keeps."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stuntbroker.broker.connections.binding import PortReservation

CHECK_S: Final = 0.5
"""Polling interval where the kernel sends no notification, in seconds."""
DESCRIPTORS_MAX: Final = 200
"""Number of descriptors that one message carries; Linux allows 253."""
_PORTS: Final = b"ports"
"""Content of a message: descriptors need one."""

_server_id: int | None = None
"""Process id of the fork server that has forked this process; None if another process has started it."""
_to_server: socket.socket | None = None
"""Socket to the fork server."""


def set_fork_server(process_id: int, to_server: socket.socket) -> None:
    """Name the parent of a forked process: it may have been killed before the process can ask who its parent is."""
    global _server_id, _to_server
    _server_id = process_id
    _to_server = to_server


def keep_ports(reservations: Sequence[PortReservation]) -> None:
    """Let the fork server, if there is one, keep the ports until it removes the broker: also after a `kill -9`."""
    global _to_server
    if _to_server is None:
        return
    for start in range(0, len(reservations), DESCRIPTORS_MAX):
        descriptors = [each.fileno() for each in reservations[start : start + DESCRIPTORS_MAX]]
        socket.send_fds(_to_server, [_PORTS], descriptors)
    _to_server.close()
    _to_server = None


def receive_ports(from_broker: socket.socket) -> list[int]:
    """Return the descriptors that a broker has sent by `keep_ports` before it was ready, and close the socket."""
    received: list[int] = []
    with from_broker:
        while True:
            data, descriptors, _, _ = socket.recv_fds(from_broker, len(_PORTS), DESCRIPTORS_MAX)
            if not data:
                return received
            received += descriptors


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
