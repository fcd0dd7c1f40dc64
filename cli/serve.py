"""`stuntbroker serve`: one process, one event loop, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
from typing import NamedTuple

from stuntbroker.broker.config import BrokerConfig, ConfigError
from stuntbroker.broker.events import Events
from stuntbroker.broker.file_limits import share
from stuntbroker.broker.listener import CannotListen, Listener, listeners_of
from stuntbroker.broker.server import Broker
from stuntbroker.cli.main import UsageError, choice, number, single
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.open_files import NO_LIMIT, OPEN_FILES

GC_THRESHOLDS = (50_000, 20, 100)
"""What lives per id and per record makes no cycles: the collector need not look often."""


class _CannotStop(Exception):
    """What a broker that has run could not write at its end."""


class Folder(NamedTuple):
    """Where the data lives, and how."""

    data_dir: str | None
    """None: a temporary folder."""
    durability: str
    truncate_damaged: bool
    """Cut a damaged log where the damage begins, instead of refusing to start."""


class Listening(NamedTuple):
    """Where, and who is told when it is ready."""

    listeners: list[Listener]
    metrics_port: int | None
    """None: nobody scrapes."""
    ready_file: str


def serve(given: dict[str, list[str]]) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit status."""
    durability = choice(given, "--durability", "process", "power")
    form = choice(given, "--log-format", "text", "json")
    level = choice(given, "--log-level", "info", "debug", "warning", "error")
    data_dir = single(given, "--data-dir", "") or None
    truncate = choice(given, "--recover", "refuse", "truncate") == "truncate"
    ready_file = single(given, "--ready-file", "")
    metrics_port = number(given, "--metrics-port", 0, 0, 65_535) if "--metrics-port" in given else None
    properties = _properties(single(given, "--config", ""), given.get("--set", []))
    try:
        config = BrokerConfig(properties)
        listeners = _listeners(given, config)
    except ConfigError as fault:
        raise UsageError(str(fault)) from None
    events = Events(level, form)
    if config.unused:
        events.warning("properties_without_effect", properties=sorted(config.unused))
    open_files = _raise_file_limit()
    shares = share(open_files, config["max.connections"])
    if shares.connections < config["max.connections"]:
        events.warning(
            "max_connections_lowered",
            max_connections=shares.connections,
            hint="the system lets this process have too few open files: raise the limit (ulimit -n)",
        )
        config.values["max.connections"] = shares.connections
    config.ceilings["max.connections"] = share(open_files, 1 << 30).connections
    OPEN_FILES.limit = shares.segments
    try:
        _remove_ready_file(ready_file)  # A broker that did not end in order left it behind.
        return _run(
            config, Folder(data_dir, durability, truncate), events, Listening(listeners, metrics_port, ready_file)
        )
    except _CannotStop as fault:
        sys.stderr.write(
            f"stuntbroker: stopped, but not in order: {fault}; the next start reads the folder as after a crash\n"
        )
        return 1
    except ConfigError as fault:
        raise UsageError(str(fault)) from None
    except CannotListen as fault:
        by_option = {"--host", "--port"} & given.keys() or not config["listeners"]
        given_by = ("--port", "--host") if by_option else ("port in listeners", "host in listeners")
        sys.stderr.write(f"stuntbroker: cannot start: {fault}; {listening_advice(fault.fault, *given_by)}\n")
        return 1
    except (StorageError, DecodeError, OSError) as fault:
        sys.stderr.write(f"stuntbroker: cannot start: {fault}\n")
        return 1


def _listeners(given: dict[str, list[str]], config: BrokerConfig) -> list[Listener]:
    """Where to listen: `--host` and `--port`, and what is not given of them from the property `listeners`."""
    host = single(given, "--host", "") if "--host" in given else None
    port = number(given, "--port", 0, 0, 65_535) if "--port" in given else None
    return listeners_of(config, host, port)


def _properties(path: str, sets: list[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    if path:
        from stuntbroker.cli.properties import read_properties

        properties = read_properties(path)
    for setting in sets:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {setting!r}: it must be KEY=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def _raise_file_limit() -> int:
    """As many open files as the system lets us have, and how many that is: partitions and clients need one each."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else NO_LIMIT


def _run(config: BrokerConfig, folder: Folder, events: Events, listening: Listening) -> int:
    try:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    except ImportError:  # No wheel for this system: asyncio's own loop does the same, slower.
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    broker = Broker(
        config,
        folder.data_dir,
        folder.durability,
        events,
        truncate_damaged=folder.truncate_damaged,
        listeners=listening.listeners,
    )
    stopped: asyncio.Future[str] = loop.create_future()
    status = 0

    def stop(why: str, code: int = 0) -> None:
        nonlocal status
        if not stopped.done():
            status = code
            stopped.set_result(why)

    broker.failed = lambda why: stop(why, 1)
    for number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number_ == signal.SIGHUP and signal.getsignal(number_) == signal.SIG_IGN:
            continue  # Under nohup: the terminal may go, the broker stays.
        loop.add_signal_handler(number_, stop, signal.Signals(number_).name)
    why = loop.run_until_complete(_live(broker, listening, stopped))
    if status:
        sys.stderr.write(f"stuntbroker: stopped: {why}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # Everything is on the disk; taking the interpreter apart would only take time.


async def _live(broker: Broker, listening: Listening, stopped: asyncio.Future[str]) -> str:
    """From start to stop in one run of the loop: a signal that comes between two runs would be lost."""
    try:
        await broker.start()
    except BaseException:
        await broker.stop()
        raise
    ready = {"kafka": str(broker.listeners[0].addresses[0].reachable())}
    if len(broker.listeners) > 1:
        ready |= {f"listener.{each.name}": str(each.addresses[0].reachable()) for each in broker.listeners}
    if listening.metrics_port is not None:
        from stuntbroker.broker.metrics_server import MetricsServer  # Loads what only a scrape needs.

        metrics = MetricsServer(broker)
        host = listening.listeners[0].host
        try:
            ready["metrics"] = str((await metrics.start(host, listening.metrics_port)).reachable())
        except OSError as fault:
            await broker.stop()
            advice = listening_advice(fault, "--metrics-port")
            raise StorageError(
                f"cannot listen on {host}:{listening.metrics_port}: {fault.strerror}; {advice}"
            ) from fault
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        _tell(ready, listening.ready_file)
    except OSError as fault:
        await broker.stop()
        raise StorageError(
            f"cannot write the ready file {listening.ready_file}: {fault.strerror}; give another --ready-file"
        ) from fault
    broker.remove_stale_folders()
    why = await stopped
    _remove_ready_file(listening.ready_file)
    if "metrics" in ready:
        metrics.stop()
    try:
        await broker.stop()
    except (StorageError, OSError) as fault:
        raise _CannotStop(str(fault)) from fault
    return why


def listening_advice(fault: OSError, port_from: str, host_from: str = "--host") -> str:
    """What to do about an address that cannot be had; `port_from` and `host_from` are where it was given."""
    if isinstance(fault, socket.gaierror):
        return f"give a {host_from} that has an address"
    match fault.errno:
        case errno.EADDRINUSE:
            return f"stop who is there, or give another {port_from}"
        case errno.EACCES:
            return f"this user may not have that port: give another {port_from}, from 1024 on"
        case errno.EADDRNOTAVAIL:
            return f"no interface of this machine has that address: give another {host_from} (0.0.0.0 for all it has)"
    return f"give another {host_from} or {port_from}"


def _remove_ready_file(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):  # It is not there, or cannot be written either, which `_tell` reports.
            os.unlink(path)


def _tell(ready: dict[str, str], ready_file: str) -> None:
    if ready_file:
        import json

        with open(ready_file + ".new", "w", encoding="utf-8") as file:
            json.dump({**ready, "pid": os.getpid()}, file)
        os.replace(ready_file + ".new", ready_file)
    sys.stdout.write(f"ready {' '.join(f'{name}={address}' for name, address in ready.items())}\n")
    sys.stdout.flush()
