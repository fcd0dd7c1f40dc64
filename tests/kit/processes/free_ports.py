"""Free ports for processes that need to know their port before they start, or keep it while they are down."""

from __future__ import annotations

import contextlib
import os
import socket
from random import SystemRandom

FIRST, END = 12_000, 32_000
"""Range below the ephemeral ports (from 32,768 on in Linux). The kernel could use an ephemeral port of a killed broker for
an outgoing connection, even for that of a client to the broker, which would then be connected to itself."""
WORKERS_MAX = 16


def free_port() -> int:
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    """Return whether a program that shares its ports with no other could use a port of 127.0.0.1."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_given: set[int] = set()
"""Ports already returned, whose processes may not have started to listen."""


def free_ports(count: int) -> list[int]:
    """Return free ports of 127.0.0.1 that this process has not received before; processes of pytest-xdist get different ones."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = range(FIRST + worker % WORKERS_MAX, END, WORKERS_MAX)
    ports: list[int] = []
    # The module `random` may have the same seed in every process.
    chance = SystemRandom()
    with contextlib.ExitStack() as bound:
        while len(ports) < count:
            port = chance.choice([port for port in mine if port not in _given] or mine)
            with contextlib.suppress(OSError):  # The port is in use: try another.
                bound.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
                _given.add(port)
    return ports
