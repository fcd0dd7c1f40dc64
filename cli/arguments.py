"""Commands and options of the command line, and the parsing of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from stuntbroker.protocol.addresses import Address

COMMANDS: Final = (
    "serve",
    "wait",
    "topic",
    "group",
    "acl",
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
SECONDS_MAX: Final = 1e9


class UsageError(Exception):
    """An invalid command line; the message says what is valid."""


def unknown_command(name: str, commands: Collection[str], noun: str = "") -> UsageError:
    """Return the error for an unknown or missing (empty) command, or subcommand of `noun`."""
    problem = f"there is no command {name!r}" if name else "a command is missing"
    prefix, help_words = (f"{noun}: ", f"{noun} --help") if noun else ("", "--help")
    return UsageError(f"{prefix}{problem}; {_listing(name, commands, ', ')} (see {help_words})")


SERVE_OPTIONS: Final = (
    "--host",
    "--port",
    "--data-dir",
    "--durability",
    "--config",
    "--set",
    "--nodes",
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
WAIT_OPTIONS: Final = ("--bootstrap", "--command-config", "--timeout")
WAIT_FLAGS: Final = ("--container", "--json")


def options(
    arguments: list[str],
    known: tuple[str, ...],
    flags: tuple[str, ...] = (),
    has_positionals: bool = False,
    optional_value: tuple[str, ...] = (),
) -> dict[str, list[str]]:
    """Parse `--name value`, `--name=value` and `--flag`; return option -> its values in order, none for a flag.

    `has_positionals`: accept positional arguments, too, under the name ""; after `--`, every word is one. `optional_value`:
    options whose value is empty if another option follows, or nothing. Raises UsageError.
    """
    given: dict[str, list[str]] = {}
    at = 0
    while at < len(arguments):
        if has_positionals and arguments[at] == "--":
            given.setdefault("", []).extend(arguments[at + 1 :])
            break
        if has_positionals and not arguments[at].startswith("--"):
            given.setdefault("", []).append(arguments[at])
            at += 1
            continue
        name, equals, value = arguments[at].partition("=")
        at += 1
        if name in flags and not equals:
            given[name] = []
            continue
        if name in flags:
            raise UsageError(f"{name} takes no value")
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument {name!r}; the options are {' '.join((*known, *flags))}")
        if name not in known:
            raise UsageError(f"unknown option {name!r}; {_listing(name, (*known, *flags), ' ')}")
        if not equals and name in optional_value and (at == len(arguments) or arguments[at].startswith("--")):
            given.setdefault(name, []).append("")
            continue
        if not equals:
            if at == len(arguments):
                raise UsageError(f"{name} needs a value")
            value = arguments[at]
            at += 1
        given.setdefault(name, []).append(value)
    return given


def _listing(given: str, valid: Collection[str], separator: str) -> str:
    """Return the sentence that lists the valid words, and first asks for the one that `given` may have meant."""
    from difflib import get_close_matches

    meant = get_close_matches(given, valid, n=1)
    return f"{f'do you mean {meant[0]}? There' if meant else 'there'} are {separator.join(valid)}"


def single(given: dict[str, list[str]], name: str, default: str) -> str:
    """Return an option's only value. Raises UsageError when it was given twice."""
    values = given.get(name, [default])
    if len(values) > 1:
        raise UsageError(f"{name} was given {len(values)} times")
    return values[0]


def non_empty_value(given: dict[str, list[str]], name: str) -> str:
    """Return an option's only value, "" if it was not given. Raises UsageError if it is empty, as from an unset variable."""
    value = single(given, name, "")
    if not value and name in given:
        raise UsageError(f"{name} is empty: give it a value, or leave it out")
    return value


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
    """Return the addresses of `--bootstrap`. Raises UsageError."""
    from stuntbroker.protocol.addresses import BOOTSTRAP_DEFAULT, parse_bootstrap

    try:
        return parse_bootstrap(single(given, "--bootstrap", BOOTSTRAP_DEFAULT))
    except ValueError as fault:
        raise UsageError(f"--bootstrap: {fault}") from None
