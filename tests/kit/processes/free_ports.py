"""Ports for processes that must be told theirs before they start, or that keep it while they are down."""

from __future__ import annotations

import contextlib
import os
import socket
from random import SystemRandom

FIRST, END = 12_000, 32_000
"""Below the ports that kernels give to whoever connects (from 32,768 on in Linux). A port of theirs, once its broker is
killed, can become the near end of a connection: even of one to itself, by a client that tries to reach the broker."""
WORKERS_MAX = 16


def free_port() -> int:
    return free_ports(1)[0]


_given: set[int] = set()
"""Ports that may not be in use yet, because the process that is to listen there has not started."""


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that this process has not got before. Processes of pytest-xdist never get the same."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = range(FIRST + worker % WORKERS_MAX, END, WORKERS_MAX)
    ports: list[int] = []
    # Not of `random`, whose seed is the same in every process.
    chance = SystemRandom()
    with contextlib.ExitStack() as bound:
        while len(ports) < count:
            port = chance.choice([port for port in mine if port not in _given] or mine)
            with contextlib.suppress(OSError):  # Somebody has it: another one.
                bound.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
                _given.add(port)
    return ports
