"""The command line. `serve` is parsed by hand: argparse alone would cost a tenth of the start."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stuntbroker.client.connection import Address

COMMANDS: Final = ("serve", "wait", "txn", "dump", "audit", "version", "help")
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
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except UsageError as fault:
        sys.stderr.write(f"stuntbroker: {fault}\n")
        return 2
    except BrokenPipeError:  # Whoever read our output has seen enough. Python would say so once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    command, others = (arguments[0], arguments[1:]) if arguments else ("", [])
    if "--help" in arguments or "-h" in arguments:
        command, others = "help", [] if command.startswith("-") else [command]
    match command:
        case "serve":
            from stuntbroker.cli.serve import serve

            return serve(options(others, SERVE_OPTIONS))
        case "wait":
            from stuntbroker.cli.wait import wait

            return wait(options(others, WAIT_OPTIONS))
        case "txn":
            from stuntbroker.cli.txn import txn

            return txn(others)
        case "audit":
            from stuntbroker.cli.audit import audit

            return audit(others)
        case "dump":
            from stuntbroker.cli.dump import dump

            return dump(others)
        case "version" | "--version" | "-V":
            sys.stdout.write(f"stuntbroker {VERSION} ({'compiled' if is_compiled() else 'not compiled'})\n")
            return 0
        case "help":
            from stuntbroker.cli.help import help_of

            sys.stdout.write(help_of(others[0] if others else ""))
            return 0
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
)
WAIT_OPTIONS: Final = ("--bootstrap", "--timeout")


def options(arguments: list[str], known: tuple[str, ...], flags: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """`--name value` and `--name=value`, each as often as it was given, and `--flag` alone, which has no values."""
    given: dict[str, list[str]] = {}
    at = 0
    while at < len(arguments):
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name in flags and not equals:
            given[name] = []
            continue
        if name not in known:
            raise UsageError(f"unknown option {name!r}; there are {' '.join((*known, *flags))}")
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
