"""`stuntbroker serve`: runs a broker in one process with one event loop, until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import NODES_MAX, ConfigError
from stuntbroker.broker.connections.listener import CannotListen, Listener, listeners_of, properties_of_no_listener
from stuntbroker.broker.file_limits import share
from stuntbroker.broker.observation.events import Events
from stuntbroker.broker.server import Broker
from stuntbroker.cli.arguments import UsageError, choice, non_empty_value, number, single
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.open_files import NO_LIMIT, OPEN_FILES

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.cli.serving.control_option import ControlAddress
    from stuntbroker.cli.serving.environment import Environment
    from stuntbroker.cli.serving.http_servers import HttpServers
    from stuntbroker.protocol.messages.create_topics_request import CreatableTopic

GC_THRESHOLDS = (50_000, 20, 100)
"""Thresholds of the garbage collector: high, because objects per id and per record form no cycles."""
OPEN_FILES_TRIED: Final = (*(1 << power for power in range(20, 13, -1)), 10_240)
"""Limits of open files that are tried after the hard limit. macOS always accepts the last one, its OPEN_MAX."""


class _CannotStop(Exception):
    """A broker could not write its data when it stopped."""


class Folder(NamedTuple):
    """Options of the data folder."""

    data_dir: str | None
    """Path of the data folder; None for a temporary one."""
    durability: str
    truncate_damaged: bool
    """Cut a damaged log where the damage begins, instead of refusing to start."""


class Listening(NamedTuple):
    """Listeners, initial topics, how readiness is reported, and when to exit."""

    listeners: list[Listener]
    metrics_port: int | None
    """None: no metrics server."""
    ready_file: str
    topics: list[CreatableTopic]
    """Topics to create before the broker listens, unless they exist."""
    exit_with_parent: bool
    in_container: bool
    """Print the ready lines of other Kafka images too."""
    not_found_ports: list[int]
    """Ports on which every HTTP request gets 404."""
    control: ControlAddress | None
    """None: no control API."""

    @property
    def has_http(self) -> bool:
        """Whether any HTTP server is wanted."""
        return self.metrics_port is not None or self.control is not None or bool(self.not_found_ports)


def serve(given: dict[str, list[str]]) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit status. Raises UsageError."""
    environment = _environment("--container" in given)
    for name in ("--data-dir", "--ready-file", "--config"):
        non_empty_value(given, name)
    if environment is None:
        return _serve(given, None)
    merged = environment.options | given
    if "--control-token" not in given and {"--control", "--plan"}.isdisjoint(merged):
        merged.pop("--control-token", None)  # The variable is for the commands and the pytest plug-in then.
    try:
        return _serve(merged, environment)
    except UsageError as fault:
        raise UsageError(environment.naming_variable(str(fault), given)) from None


class Options(NamedTuple):
    """All options of a command line, after the variables and files that it names are read."""

    config: BrokerConfig
    folder: Folder
    listening: Listening
    log_format: str
    log_level: str


def _serve(given: dict[str, list[str]], environment: Environment | None) -> int:
    config, folder, listening, log_format, log_level = options = _options(given, environment)
    events = Events(log_level, log_format)
    _warn_of_unused(events, config, listening.listeners, environment)
    if listening.in_container and folder.data_dir is None:
        from stuntbroker.cli.serving import container

        os.environ.setdefault("TMPDIR", container.temporary_folder())
        events.warning("data_not_kept", folder=container.DATA_DIR, hint="mount a volume there to keep the data")
    _share_open_files(config, events)
    try:
        _remove_ready_file(listening.ready_file)  # Left behind by a broker that did not stop cleanly.
        return _run(config, folder, events, listening)
    except ConfigError as fault:
        raise UsageError(str(fault)) from None
    except (_CannotStop, CannotListen, StorageError, DecodeError, OSError) as fault:
        sys.stderr.write(f"stuntbroker: {_failure(fault, given, options)}\n")
        return 1


def _options(given: dict[str, list[str]], environment: Environment | None) -> Options:
    """Read all options. Raises UsageError."""
    in_container = "--container" in given
    durability = choice(given, "--durability", "process", "power")
    log_format = choice(given, "--log-format", "text", "json")
    log_level = choice(given, "--log-level", "info", "debug", "warning", "error")
    data_dir = single(given, "--data-dir", "") or None
    truncate = choice(given, "--recover", "refuse", "truncate") == "truncate"
    ready_file = single(given, "--ready-file", "")
    metrics_port = number(given, "--metrics-port", 0, 0, 65_535) if "--metrics-port" in given else None
    topics = [_topic(text) for text in given.get("--topic", ())]
    config_file = single(given, "--config", "")
    log_dirs = "" if environment is None else environment.log_dirs
    if in_container:
        from stuntbroker.cli.serving import container

        config_file = config_file or container.config_file()
        data_dir = data_dir or container.data_dir(log_dirs)
        ready_file = ready_file or container.ready_file()
    properties = _given_properties(given, config_file, environment)
    if in_container:
        properties.setdefault("listeners", container.LISTENERS)
    elif log_dirs:
        properties.setdefault("log.dirs", log_dirs)  # Without effect, as in a file; --data-dir sets the folder.
    try:
        config = BrokerConfig(properties)
        listening = Listening(
            _listeners(given, config),
            metrics_port,
            ready_file,
            topics,
            "--exit-with-parent" in given,
            in_container,
            _ports(single(given, "--not-found-ports", "")),
            _control_address(given),
        )
    except ConfigError as fault:
        raise UsageError(str(fault)) from None
    return Options(config, Folder(data_dir, durability, truncate), listening, log_format, log_level)


def _share_open_files(config: BrokerConfig, events: Events) -> None:
    """Divide the open files that the system allows between connections and segments; warn if that limits connections."""
    open_files = _raise_file_limit()
    shares = share(open_files, config["max.connections"])
    if shares.connections < config["max.connections"]:
        events.warning(
            "max_connections_lowered",
            max_connections=shares.connections,
            hint="the system lets this process have too few open files: raise the limit (ulimit -n)",
        )
        config.replace({**config.values, "max.connections": shares.connections})
    config.ceilings["max.connections"] = share(open_files, 1 << 30).connections
    OPEN_FILES.limit = shares.segments


def _failure(fault: Exception, given: dict[str, list[str]], options: Options) -> str:
    """Return what happened, and what to do."""
    if isinstance(fault, _CannotStop):
        return f"stopped, but not cleanly: {fault}; the next start recovers the logs as after a crash"
    if isinstance(fault, CannotListen):
        from stuntbroker.cli.serving.listening_advice import listening_advice

        by_option = {"--host", "--port"} & given.keys() or not options.config["listeners"]
        given_by = ("--port", "--host") if by_option else ("port in listeners", "host in listeners")
        return f"cannot start: {fault}; {listening_advice(fault.fault, *given_by)}"
    advice = ""
    if options.listening.in_container and options.folder.data_dir:
        from stuntbroker.cli.serving import container

        advice = container.ownership_advice(options.folder.data_dir)
    return f"cannot start: {fault}{advice}"


def _listeners(given: dict[str, list[str]], config: BrokerConfig) -> list[Listener]:
    """Return the listeners: from `--host` and `--port`, or from the property `listeners` if not given."""
    host = non_empty_value(given, "--host") if "--host" in given else None
    port = number(given, "--port", 0, 0, 65_535) if "--port" in given else None
    return listeners_of(config, host, port)


INSTEAD: Final = {
    "log.dirs": "--data-dir for the data folder",
    "log.dir": "--data-dir for the data folder",
    "port": "--port or listeners for the port",
    "host.name": "--host or listeners for the host",
}
"""Property without effect -> what has the effect here."""


def _warn_of_unused(
    events: Events, config: BrokerConfig, listeners: list[Listener], environment: Environment | None
) -> None:
    """Warn of properties and variables that have no effect, so that none is ignored silently."""
    unused = [*config.unused, *properties_of_no_listener(config, listeners)]
    if unused:
        hints = dict.fromkeys(INSTEAD[name] for name in unused if name in INSTEAD)
        facts = {"hint": "use " + ", ".join(hints)} if hints else {}
        events.warning("properties_ignored", properties=sorted(unused), **facts)
    if environment is not None and environment.without_effect:
        events.warning("variables_ignored", variables=environment.without_effect)
    if environment is not None and environment.unknown:
        hint = "neither Kafka nor Stuntbroker has a property of that name"
        events.warning("unknown_variables_ignored", variables=environment.unknown, hint=hint)


def _environment(in_container: bool) -> Environment | None:
    """Return settings from environment variables; None, without loading the module, if none is for a broker."""
    prefixes = ("KAFKA_", "STUNTBROKER_", "CLUSTER_ID")
    if not in_container and not any(name.startswith(prefixes) for name in os.environ):
        return None
    from stuntbroker.cli.serving.environment import read_environment

    return read_environment(os.environ)


def _given_properties(given: dict[str, list[str]], config_file: str, environment: Environment | None) -> dict[str, str]:
    """Merge properties of the file, then the variables, then the options: later ones override. Raises UsageError."""
    properties = _properties_of(config_file)
    if environment is not None:
        properties |= environment.properties
    properties |= _key_values(given.get("--set", []))
    if "--nodes" in given:
        nodes = str(number(given, "--nodes", 1, 1, NODES_MAX))
        if properties.get("stuntbroker.nodes", nodes) != nodes:
            raise UsageError(
                f"--nodes {nodes} and stuntbroker.nodes={properties['stuntbroker.nodes']} differ: give one of them"
            )
        properties["stuntbroker.nodes"] = nodes
    return properties


def _properties_of(path: str) -> dict[str, str]:
    """Return the properties in a file, none without a path. Raises UsageError."""
    if not path:
        return {}
    from stuntbroker.cli.serving.properties import read_properties

    return read_properties(path)


def _key_values(sets: list[str]) -> dict[str, str]:
    properties = {}
    for setting in sets:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {setting!r}: it must be KEY=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def _ports(text: str) -> list[int]:
    ports = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 and int(part) < 65_536 for part in ports):
        raise UsageError(f"--not-found-ports {text!r}: it must be ports with commas")
    return [int(part) for part in ports]


def _control_address(given: dict[str, list[str]]) -> ControlAddress | None:
    """Return the options of --control; None without it. Raises UsageError."""
    if {"--control", "--control-token", "--plan"}.isdisjoint(given):
        return None
    from stuntbroker.cli.serving.control_option import control_address

    return control_address(given)


def _topic(text: str) -> CreatableTopic:
    """Parse `NAME[:PARTITIONS[:KEY=VALUE...]]` to a topic. Raises UsageError."""
    from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

    name, *more = text.split(":")
    partitions = more.pop(0) if more else "-1"
    if not name or (partitions != "-1" and not (partitions.isascii() and partitions.isdigit())) or len(partitions) > 9:
        raise UsageError(f"--topic {text!r}: it must be NAME, NAME:PARTITIONS or NAME:PARTITIONS:KEY=VALUE:...")
    configs = []
    for setting in more:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--topic {text!r}: {setting!r} must be KEY=VALUE")
        # A list may be in brackets, as kafka-configs needs them.
        configs.append(CreatableTopicConfig(key, value.removeprefix("[").removesuffix("]")))
    return CreatableTopic(name, int(partitions), -1, (), configs)


def _raise_file_limit() -> int:
    """Raise the limit of open files as far as allowed, and return it: partitions and clients need one file each."""
    import resource

    unlimited = resource.RLIM_INFINITY
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, *OPEN_FILES_TRIED):
        if limit == unlimited or unlimited != wanted <= limit:
            break
        # The kernel may allow less than the hard limit, which is infinite on macOS.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            limit = wanted
            break
    return NO_LIMIT if limit == unlimited else limit


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
        clock=None if listening.control is None else _test_clock(),
        truncate_damaged=folder.truncate_damaged,
        listeners=listening.listeners,
    )
    if listening.control is not None and listening.control.plan is not None:
        from stuntbroker.control.rules.stops import arm_start

        arm_start(broker, listening.control.plan.stops)
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
            continue  # Under nohup, the broker survives its terminal.
        loop.add_signal_handler(number_, stop, signal.Signals(number_).name)
    if listening.exit_with_parent:
        from stuntbroker.cli.serving.parent import watch_parent

        watch_parent(loop, lambda: stop("its parent has ended"))
    why = loop.run_until_complete(_live(broker, listening, stopped))
    if status:
        sys.stderr.write(f"stuntbroker: stopped: {why}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # Everything is written; a regular exit of the interpreter would only take time.


def _test_clock() -> Clock:
    from stuntbroker.control.clock import TestClock

    return TestClock()


async def _live(broker: Broker, listening: Listening, stopped: asyncio.Future[str]) -> str:
    """Start the broker, and stop it when `stopped` is set, in one run of the loop: a signal between two runs would be lost."""
    try:
        await broker.start(listening.topics)
    except BaseException:
        await broker.stop()
        raise
    ready = {"kafka": str(broker.listeners[0].reachable)}
    security = broker.listeners[0].security
    if security is not None:
        ready["security"] = security.protocol
    first = broker.nodes.by_id[broker.nodes.first].listeners
    if len(first) > 1:
        ready |= {f"listener.{name}": str(each.reachable) for name, each in first.items()}
    if broker.nodes.are_many:
        name = broker.listeners[0].name
        ready |= {f"node.{node.id}": str(node.listeners[name].reachable) for node in broker.nodes.by_id.values()}
    http: HttpServers | None = None
    try:
        if listening.has_http:
            from stuntbroker.cli.serving.http_servers import HttpServers

            http = HttpServers(broker, ready)
            await _start_http(http, listening)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        if listening.exit_with_parent:
            from stuntbroker.cli.serving.parent import keep_ports

            keep_ports([each for listener in broker.listeners for each in listener.reservations])
        _write_ready_file(ready, listening.ready_file)
        _write_ready_lines(ready, broker.node_id, listening.in_container)
    except StorageError:
        _remove_ready_file(listening.ready_file)
        await broker.stop()
        raise
    broker.remove_stale_folders()
    from stuntbroker.cli.serving.preload import load_while_idle  # Not loaded before the broker is ready.

    load_while_idle(asyncio.get_running_loop())
    why = await stopped
    _remove_ready_file(listening.ready_file)
    if http is not None:
        http.stop()
        broker = http.broker  # The control API may have replaced it.
    try:
        await broker.stop()
    except (StorageError, OSError) as fault:
        raise _CannotStop(str(fault)) from fault
    return why


async def _start_http(http: HttpServers, listening: Listening) -> None:
    host = listening.listeners[0].host
    if listening.metrics_port is not None:
        await http.start_metrics(host, listening.metrics_port)
    if listening.control is not None:
        await http.start_control(listening.control, listening.topics)
    await http.answer_not_found(host, listening.not_found_ports)


def _remove_ready_file(path: str) -> None:
    if path:
        # The file does not exist, or is not writable, which `_write_ready_file` reports.
        with contextlib.suppress(OSError):
            os.unlink(path)


def _write_ready_file(ready: dict[str, str], path: str) -> None:
    if not path:
        return
    import json

    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({**ready, "pid": os.getpid()}, file)
        os.replace(path + ".new", path)
    except OSError as fault:
        _remove_ready_file(path + ".new")
        advice = "give another --ready-file"
        raise StorageError(f"cannot write the ready file {path}: {fault.strerror}; {advice}") from fault


def _write_ready_lines(ready: dict[str, str], node_id: int, in_container: bool) -> None:
    try:
        sys.stdout.write(f"ready {' '.join(f'{name}={address}' for name, address in ready.items())}\n")
        if in_container:
            from stuntbroker.cli.serving import container

            sys.stdout.write(container.ready_lines(node_id))
        sys.stdout.flush()
    except OSError as fault:
        advice = "redirect standard output"
        raise StorageError(f"cannot write the ready line to standard output: {fault.strerror}; {advice}") from fault
