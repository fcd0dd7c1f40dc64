"""`stuntbroker fork-server`: starts brokers in a few milliseconds each, for test suites that need one per test.

The fork server loads the broker's code once and forks a process for each broker. Requests are lines of JSON on standard
input, responses lines of JSON on standard output, in any order, each with the id of its request:

    {"id": 1, "start": ["--topic", "orders:3"], "name": "a"}      {"id": 1, "pid": 4711, "ready": {"kafka": "127.0.0.1:40123"}}
                                                                  or {"id": 1, "error": "..."}
    {"id": 2, "stop": 4711, "signal": 15}                         {"id": 2, "status": 0}
    {"id": 3, "status": 4711}                                     {"id": 3, "status": null}: it runs; or its exit status
    {"id": 4, "remove": 4711, "name": "a"}                        (none: killed, and its folder is removed)
    {"id": 5, "end": true}                                        (none: as when standard input ends)

Each broker keeps its data in FOLDER/NAME/data and its log in FOLDER/NAME/log; FOLDER is in the first line of the output.
When standard input ends, for whatever reason, the brokers are killed and the folder is removed.
"""

from __future__ import annotations

import fcntl
import gc
import itertools
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError
from stuntbroker.cli.serving.parent import receive_ports, set_fork_server

PRELOADED: Final = (
    "stuntbroker.cli.serving.serve",
    "stuntbroker.broker.housekeeping",
    "stuntbroker.cli.serving.control_option",
    "stuntbroker.cli.serving.http_servers",
    "stuntbroker.cli.serving.listening_advice",
    "stuntbroker.control.control",
    "encodings.ascii",
    "resource",
    "uvloop",
)
"""Modules of the start, of the broker's timers and of the control API. The usual requests need others (`preload`)."""
PREFIX: Final = "stuntbroker-tests-"
LOCK: Final = "lock"
"""Name of a file in the folder that is locked while a process uses the folder."""
END_S_MAX: Final = 5.0
POLL_S: Final = 0.001
STATUS_S_MAX: Final = 1.0
"""How long, in seconds, to wait for the end of a broker that no longer answers.

The system closes the connections of a process before it reports the end of the process: on a busy machine, long before.
"""
GONE: Final = -1
"""Status reported for a broker that has already ended."""
VARIABLES: Final = ("KAFKA_", "STUNTBROKER_", "CLUSTER_ID")
"""Prefixes of variables that would configure a broker; here they belong to the code under test, and are removed."""


Run = Callable[[list[str]], int]
"""Function that runs a command line and returns its exit status."""


def fork_server(arguments: list[str], run: Run) -> int:
    """Start and stop brokers until standard input ends; return the exit status. Raises UsageError.

    `run`: function that runs the command line of a broker in the forked process.
    """
    if arguments:
        raise UsageError("fork-server takes no options: programs send requests to its standard input")
    for name in list(os.environ):
        if name.startswith(VARIABLES):
            del os.environ[name]
    # A process that has used io_uring takes milliseconds to exit, and tests do not need io_uring.
    os.environ["UV_USE_IO_URING"] = "0"
    _preload()
    # Signals of Ctrl-C, of a closed terminal or of CI are for the test run, whose end closes our standard input.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Where the parent ignores the end of its children, the exit status of a broker would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _remove_stale_folders()
    server = _Server(_new_folder(), run)
    try:
        server.serve()
    except BrokenPipeError:
        pass  # The client process has ended; its brokers are not needed any more.
    finally:
        server.close()
    return 0


def _new_folder() -> str:
    """Create a folder whose lock this process and its brokers hold until the last of them has ended."""
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        lock = os.open(os.path.join(folder, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return folder  # The lock is never closed.
        os.close(lock)  # Another fork server took the folder for a stale one before it was locked.


def _remove_stale_folders() -> None:
    """Remove the folders of fork servers that were killed together with their test run."""
    for entry in os.scandir(tempfile.gettempdir()):
        try:
            is_ours = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if not entry.name.startswith(PREFIX) or not is_ours:
                continue
            lock = os.open(os.path.join(entry.path, LOCK), os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:  # Another fork server is creating or removing the folder.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:  # It is in use.
            continue
        finally:
            os.close(lock)


def _preload() -> None:
    for name in PRELOADED:
        with suppress(ImportError):  # There is no uvloop for some systems.
            import_module(name)
    from stuntbroker.cli.serving.preload import load_usual_modules
    from stuntbroker.control.server import preload

    load_usual_modules()
    preload()
    gc.collect()
    gc.freeze()


class _Server:
    """Handles requests, and brokers that become ready."""

    def __init__(self, folder: str, run: Run) -> None:
        self._folder = folder
        self._run = run
        self._children: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._ending: dict[int, str] = {}
        """Process id -> folder of the brokers that were killed but have not ended yet."""
        self._ended: dict[int, int] = {}
        """Process id -> exit status of the brokers that were found to have ended."""
        self._kept_ports: dict[str, list[int]] = {}
        """Folder of a broker -> descriptors that keep its ports, also while it is restarted."""
        self._unread = b""

    def serve(self) -> None:
        """Handle requests until standard input ends."""
        self._selector.register(0, selectors.EVENT_READ)
        with suppress(AttributeError, OSError):  # Needs process descriptors (Linux 5.3).
            self._selector.register(os.pidfd_open(os.getppid()), selectors.EVENT_READ)
        _write_answer({"folder": self._folder})
        while True:
            for key, _ in self._selector.select():
                if key.fileobj != 0 and key.data is None:
                    return  # The client process has ended, but its child keeps our standard input open.
                if key.fileobj != 0:
                    self._became_ready(key.fd, *key.data)
                elif not self._read_requests():
                    return

    def close(self) -> None:
        """End all brokers and remove the folder."""
        for pid in (*self._children, *self._ending):
            _end(pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read_requests(self) -> bool:
        """Handle the available requests; return False if standard input has ended."""
        data = os.read(0, 65_536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "end" in request:
                return False
            if "start" in request:
                self._start(request)
            elif "stop" in request:
                self._stop(request)
            elif "status" in request:
                self._answer_status(request)
            else:
                self._remove(request)
        return bool(data)

    def _start(self, request: dict[str, Any]) -> None:
        home = os.path.join(self._folder, request["name"])
        os.makedirs(home, exist_ok=True)
        reading, writing = os.pipe()
        from_broker, to_server = socket.socketpair()
        server_id = os.getpid()
        pid = os.fork()
        if pid == 0:
            set_fork_server(server_id, to_server)
            self._selector.close()
            os.close(reading)
            from_broker.close()
            for descriptor in itertools.chain(*self._kept_ports.values()):
                os.close(descriptor)
            _become_broker(self._run, request["start"], home, writing)
        os.close(writing)
        to_server.close()
        self._children.add(pid)
        self._ended.pop(pid, None)  # The kernel gives the id of an ended process to another one.
        self._selector.register(reading, selectors.EVENT_READ, (request["id"], pid, home, from_broker))

    def _became_ready(self, reading: int, number: int, pid: int, home: str, from_broker: socket.socket) -> None:
        line = os.read(reading, 4096).decode()
        self._selector.unregister(reading)
        os.close(reading)
        if line.startswith("ready kafka="):
            # A restarted broker has the ports that are kept already.
            self._kept_ports.setdefault(home, []).extend(receive_ports(from_broker))
            ready = dict(word.split("=", 1) for word in line.split()[1:])
            _write_answer({"id": number, "pid": pid, "ready": ready})
        else:
            from_broker.close()
            self._children.discard(pid)
            _end(pid, signal.SIGKILL)
            _write_answer({"id": number, "error": _last_line(os.path.join(home, "log"))})

    def _stop(self, request: dict[str, Any]) -> None:
        pid = request["stop"]
        status = GONE
        if pid in self._children:  # Any other id may belong to another process, or mean all processes.
            self._children.discard(pid)
            status = _end(pid, request["signal"])
        _write_answer({"id": request["id"], "status": status})

    def _answer_status(self, request: dict[str, Any]) -> None:
        pid = request["status"]
        deadline_s = time.monotonic() + STATUS_S_MAX
        while pid in self._children:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.discard(pid)
                self._ended[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline_s:
                break
            time.sleep(POLL_S)
        _write_answer({"id": request["id"], "status": self._ended.get(pid)})

    def _remove(self, request: dict[str, Any]) -> None:
        """Kill a broker and remove its data later, without waiting for the kernel to end the process."""
        pid, home = request["remove"], os.path.join(self._folder, request["name"])
        for descriptor in self._kept_ports.pop(home, ()):
            os.close(descriptor)
        if pid not in self._children:  # It has already ended.
            shutil.rmtree(home, ignore_errors=True)
            return
        os.kill(pid, signal.SIGKILL)
        self._children.discard(pid)
        self._ended[pid] = -signal.SIGKILL
        self._ending[pid] = home
        self._forget_ended()

    def _forget_ended(self) -> None:
        for pid, home in list(self._ending.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                shutil.rmtree(home, ignore_errors=True)
                del self._ending[pid]


def _write_answer(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _become_broker(run: Run, arguments: list[str], home: str, output: int) -> None:
    """Run `serve` in the forked process, which never returns from here."""
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()  # Ctrl-C reaches the test run, and not its brokers.
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(os.path.join(home, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, target in ((null, 0), (output, 1), (log, 2)):
            os.dup2(descriptor, target)
            os.close(descriptor)
        status = run(["serve", "--data-dir", os.path.join(home, "data"), "--exit-with-parent", *arguments])
    except BaseException as fault:
        os.write(2, f"stuntbroker: {type(fault).__name__}: {fault}\n".encode())
    finally:
        os._exit(status)


def _end(pid: int, number: int) -> int:
    """Send a signal to a broker, kill it if it does not end in time, and return its exit status, GONE if it ended before."""
    try:
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)  # A test may have stopped it.
        deadline_s = time.monotonic() + END_S_MAX
        while time.monotonic() < deadline_s:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(POLL_S)
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except (ProcessLookupError, ChildProcessError):
        return GONE


def _last_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return (file.read().strip().splitlines() or ["it said nothing"])[-1].removeprefix("stuntbroker: ")
    except OSError:
        return "it said nothing"
