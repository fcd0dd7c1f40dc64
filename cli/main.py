"""The command line. `serve` is parsed by hand: argparse alone would cost a tenth of the start."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stuntbroker.client.connection import Address

COMMANDS: Final = (
    "serve",
    "wait",
    "topic",
    "group",
    "produce",
    "consume",
    "config",
    "advertise",
    "ctl",
    "txn",
    "dump",
    "audit",
    "completion",
    "version",
    "help",
)
VERSION: Final = "0.1.0"
SECONDS_MAX: Final = 1e9


def is_compiled() -> bool:
    """Whether the modules of the hot path were compiled when this package was built."""
    from importlib.util import find_spec

    spec = find_spec("stuntbroker.coordinator.machine")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


class UsageError(Exception):
    """The command line cannot be understood; the text says what would do."""


def run(arguments: list[str]) -> int:
    """Exit status: 0 done, 1 it failed, 2 the command line is wrong."""
    _replace_missing_streams()
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except UnicodeEncodeError:
        sys.stderr.write(f"stuntbroker: {arguments!a}: a word of the command line is not UTF-8\n")
        return 2
    except UsageError as fault:
        sys.stderr.write(f"stuntbroker: {fault}\n")
        return 2
    except BrokenPipeError:  # Whoever read our output has seen enough. Python would say so once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"stuntbroker: standard output cannot be written: {fault.strerror}\n")
        return 1


def _replace_missing_streams() -> None:
    """A standard stream that was closed before we were started is empty; what a terminal cannot show is escaped."""
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
    if {"--help", "-h"} & set(arguments[:options_end]) and not command.startswith(("kafka-", "rpk")):
        command, others = "help", [] if command.startswith("-") else [command]
    match command:
        case "serve":
            from stuntbroker.cli.serve import serve

            return serve(options(others, SERVE_OPTIONS, SERVE_FLAGS, value_may_lack=("--control",)))
        case "wait":
            from stuntbroker.cli.wait import wait

            return wait(options(others, WAIT_OPTIONS, WAIT_FLAGS))
        case "topic":
            from stuntbroker.cli.topic import topic

            return topic(others)
        case "group":
            from stuntbroker.cli.group import group

            return group(others)
        case "produce":
            from stuntbroker.cli.produce import produce_command

            return produce_command(others)
        case "consume":
            from stuntbroker.cli.consume import consume

            return consume(others)
        case "config":
            from stuntbroker.cli.config import config

            return config(others)
        case "advertise":
            from stuntbroker.cli.advertise import advertise

            return advertise(others)
        case "ctl":
            from stuntbroker.cli.ctl import ctl

            return ctl(others)
        case "txn":
            from stuntbroker.cli.txn import txn

            return txn(others)
        case "completion":
            from stuntbroker.cli.completion import completion

            return completion(others)
        case "audit":
            from stuntbroker.cli.audit import audit

            return audit(others)
        case "dump":
            from stuntbroker.cli.dump import dump

            return dump(others)
        case "fork-server":
            from stuntbroker.cli.fork_server import fork_server

            return fork_server(others)
        case "version" | "--version" | "-V":
            sys.stdout.write(f"stuntbroker {VERSION} ({'compiled' if is_compiled() else 'not compiled'})\n")
            return 0
        case "help":
            from stuntbroker.cli.help import help_of

            sys.stdout.write(help_of(others[0] if others else ""))
            return 0
    from stuntbroker.cli.shims import is_shim, run_shim

    if is_shim(command):
        return run_shim(command, others)
    problem = f"there is no command {command!r}" if command else "which command?"
    raise UsageError(f"{problem}; there are {', '.join(COMMANDS)} (--help tells more)")


SERVE_OPTIONS: Final = (
    "--host",
    "--port",
    "--data-dir",
    "--durability",
    "--config",
    "--set",
    "--ready-file",
    "--log-format",
    "--log-level",
    "--metrics-port",
    "--recover",
    "--topic",
    "--not-found-ports",
    "--control",
    "--control-token",
    "--plan",
)
SERVE_FLAGS: Final = ("--exit-with-parent", "--container")
WAIT_OPTIONS: Final = ("--bootstrap", "--timeout")
WAIT_FLAGS: Final = ("--container",)


def options(
    arguments: list[str],
    known: tuple[str, ...],
    flags: tuple[str, ...] = (),
    with_words: bool = False,
    value_may_lack: tuple[str, ...] = (),
) -> dict[str, list[str]]:
    """`--name value` and `--name=value`, each as often as it was given, and `--flag` alone, which has no values.

    `with_words`: other words are taken too, under the name ""; behind `--` every word is one. `value_may_lack`: options
    whose value is empty when another option follows, or nothing. Raises UsageError.
    """
    given: dict[str, list[str]] = {}
    at = 0
    while at < len(arguments):
        if with_words and arguments[at] == "--":
            given.setdefault("", []).extend(arguments[at + 1 :])
            break
        if with_words and not arguments[at].startswith("--"):
            given.setdefault("", []).append(arguments[at])
            at += 1
            continue
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name in flags and not equals:
            given[name] = []
            continue
        if name not in known:
            raise UsageError(f"unknown option {name!r}; there are {' '.join((*known, *flags))}")
        if not equals and name in value_may_lack and (at == len(arguments) or arguments[at].startswith("--")):
            given.setdefault(name, []).append("")
            continue
        if not equals:
            if at == len(arguments):
                raise UsageError(f"{name} needs a value")
            value = arguments[at]
            at += 1
        given.setdefault(name, []).append(value)
    return given


def single(given: dict[str, list[str]], name: str, default: str) -> str:
    """Return an option's only value. Raises UsageError when it was given twice."""
    values = given.get(name, [default])
    if len(values) > 1:
        raise UsageError(f"{name} was given {len(values)} times")
    return values[0]


def choice(given: dict[str, list[str]], name: str, *choices: str) -> str:
    """Return an option's value, which must be one of `choices`; the first is the default. Raises UsageError."""
    value = single(given, name, choices[0])
    if value not in choices:
        raise UsageError(f"{name} {value!r}: it must be one of {', '.join(choices)}")
    return value


def number(given: dict[str, list[str]], name: str, default: int, low: int, high: int) -> int:
    """Return an option's whole number from `low` to `high`. Raises UsageError."""
    text = single(given, name, str(default))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not low <= int(text) <= high:
        raise UsageError(f"{name} {text!r}: it must be a whole number from {low} to {high}")
    return int(text)


def seconds(given: dict[str, list[str]], name: str, default: float) -> float:
    """Return an option's number of seconds. Raises UsageError."""
    text = single(given, name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < SECONDS_MAX:
        raise UsageError(f"{name} {text!r}: it must be a number of seconds")
    return value


def bootstrap(given: dict[str, list[str]]) -> list[Address]:
    """The addresses of `--bootstrap`."""
    from stuntbroker.client.cluster import parse_bootstrap

    try:
        return parse_bootstrap(single(given, "--bootstrap", "localhost:9092"))
    except ValueError as fault:
        raise UsageError(f"--bootstrap: {fault}") from None
