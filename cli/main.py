"""The command line. `serve` is parsed by hand: argparse alone would cost a tenth of the start."""

from __future__ import annotations

import errno
import io
import os
import sys

from stuntbroker.cli.arguments import (
    COMMANDS,
    SERVE_FLAGS,
    SERVE_OPTIONS,
    WAIT_FLAGS,
    WAIT_OPTIONS,
    UsageError,
    options,
    unknown_command,
)
from stuntbroker.cli.command_modules import module_of
from stuntbroker.protocol.software import VERSION


def is_compiled() -> bool:
    """Return whether the modules of the hot path were compiled when this package was built."""
    from importlib.util import find_spec

    spec = find_spec("stuntbroker.coordinator.machine")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def _version(words: list[str]) -> int:
    if unknown := [word for word in words if word != "--json"]:
        raise UsageError(f"version takes no {unknown[0]!r}")
    if words:
        import json

        sys.stdout.write(json.dumps({"version": VERSION, "compiled": is_compiled()}, indent=2) + "\n")
    else:
        sys.stdout.write(f"stuntbroker {VERSION} ({'compiled' if is_compiled() else 'not compiled'})\n")
    return 0


def run(arguments: list[str]) -> int:
    """Run a command line; return the exit status: 0 for success, 1 for failure, 2 for a usage error."""
    _replace_missing_streams()
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except UnicodeEncodeError:
        sys.stderr.write(f"stuntbroker: {arguments!a}: an argument is not UTF-8\n")
        return 2
    except UsageError as fault:
        sys.stderr.write(f"stuntbroker: {fault}\n")
        return 2
    except BrokenPipeError:  # The reader closed the pipe. Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"stuntbroker: standard output cannot be written: {fault.strerror}\n")
        return 1


def _replace_missing_streams() -> None:
    """Replace standard streams that were closed before the start, and escape characters that a terminal cannot show."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # It stays open to the end.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int:
    command, others = (arguments[0], arguments[1:]) if arguments else ("", [])
    options_end = arguments.index("--") if "--" in arguments else len(arguments)
    if {"--help", "-h"} & set(arguments[:options_end]):
        from stuntbroker.cli.shims import is_shim

        if not is_shim(command):
            command, others = "help", [] if command.startswith("-") else [command]
    match command:
        case "serve":
            from stuntbroker.cli.serving.serve import serve

            return serve(options(others, SERVE_OPTIONS, SERVE_FLAGS, optional_value=("--control",)))
        case "wait":
            from stuntbroker.cli.commands.wait import wait

            return wait(options(others, WAIT_OPTIONS, WAIT_FLAGS))
        case "produce":
            from stuntbroker.cli.commands.produce import produce_command

            return produce_command(others)
        case "topic" | "group" | "acl" | "consume" | "config" | "advertise" | "ctl" | "txn":
            status: int = getattr(module_of(command), command)(others)  # Each has the name of its module.
            return status
        case "completion":
            from stuntbroker.cli.completion import completion

            return completion(others)
        case "audit":
            from stuntbroker.cli.data_folder.audit import audit

            return audit(others)
        case "dump":
            from stuntbroker.cli.data_folder.dump import dump

            return dump(others)
        case "fork-server":
            from stuntbroker.cli.serving.fork_server import fork_server

            return fork_server(others, run)
        case "version" | "--version" | "-V":
            return _version(others)
        case "help":
            from stuntbroker.cli.help import help_of

            sys.stdout.write(help_of(others[0] if others else ""))
            return 0
    from stuntbroker.cli.shims import KAFKA_VERSION, imitates_kafka, is_shim, run_shim

    if is_shim(command):
        if "--version" in others and imitates_kafka(command):
            # Unlike Kafka: our version follows that of the Kafka whose command it imitates.
            sys.stdout.write(f"{KAFKA_VERSION} (stuntbroker {VERSION})\n")
            return 0
        return run_shim(command, others)
    raise unknown_command(command, COMMANDS)
