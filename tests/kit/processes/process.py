"""The broker as a separate process, as users start it, and raw requests to it over a socket."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from struct import unpack
from typing import Any

from stuntbroker.protocol.primitives import Message
from tests.kit.rig import KEYS, decode, frame

DEADLINE_S = 20.0
COMMAND = [sys.executable, "-m", "stuntbroker.cli"]
PYTEST = ("pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:hypothesispytest")
"""Module and options to run pytest without a cache and without two plug-ins, used only by this project's own tests, whose
import takes longer than a small test file."""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line until it ends."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, env=os.environ | environment
    )


def until(condition: Callable[[], Any], what: str) -> Any:
    """Poll until `condition` is true, and return its value. Raises TimeoutError."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if actual := condition():
            return actual
        time.sleep(0.005)
    raise TimeoutError(what)


class Process:
    """A process of `stuntbroker serve`; the constructor waits until it is ready."""

    def __init__(self, *arguments: str, python: str = sys.executable, **environment: str) -> None:
        port = () if any(text.startswith("listeners=") for text in arguments) else ("--port", "0")
        self.process = subprocess.Popen(
            [python, *COMMAND[1:], "serve", *port, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], DEADLINE_S)[0]:
            raise TimeoutError("the broker is not ready")
        self.line = self.process.stdout.readline().decode()
        assert self.line.startswith("ready kafka="), (self.line, self.process.communicate()[1].decode())
        host, _, number = self.line.split()[1].removeprefix("kafka=").rpartition(":")
        self.address = (host.strip("[]"), int(number))

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; return (exit status, remaining standard output, standard error)."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out.decode(), err.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


@contextlib.contextmanager
def serving(*arguments: str, python: str = sys.executable, **environment: str) -> Iterator[Process]:
    """Run a broker process, which is killed at the end if it is still running."""
    created = Process(*arguments, python=python, **environment)
    try:
        yield created
    finally:
        if created.process.poll() is None:
            created.kill()


class Peer:
    """A client that sends frames over a real socket and waits for the responses."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, DEADLINE_S)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Message, version: int, correlation: int = 7) -> None:
        self.socket.sendall(frame(request, version, correlation))

    def receive(self) -> bytes:
        (size,) = unpack(">i", self._read(4))
        return self._read(size)

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return decode(self.receive(), KEYS[type(request).__name__.removesuffix("Request")], version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError("the broker has closed the connection")
            data += more
        return data
