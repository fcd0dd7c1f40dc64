"""What Kafka's commands have in common: how options are given, where the cluster is, and how a failure is told."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from stuntbroker.client.cluster import Cluster, parse_bootstrap
from stuntbroker.client.errors import ClientError

TIMEOUT_S: Final = 30.0
BOOTSTRAP_DEFAULT: Final = "localhost:9092"


class CommandError(Exception):
    """What Kafka's command would say before it exits with 1."""


class Parser(argparse.ArgumentParser):
    """Takes options as Kafka's commands do: `--name value`, `--name=value`, shortened while it is unambiguous."""

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"{command}.sh", add_help=True)

    def error(self, message: str) -> NoReturn:
        """Kafka's commands exit with 1, not 2, when the command line is wrong."""
        raise CommandError(message)

    def add_cluster_options(self, *names: str) -> None:
        """Add `--bootstrap-server`, what stood for it earlier, and a file of client properties."""
        self.add_argument("--bootstrap-server", *names, dest="bootstrap", default=BOOTSTRAP_DEFAULT)
        # Unlike Kafka: nothing of it is read, as there is no TLS and no SASL.
        self.add_argument("--command-config", "--consumer.config", "--producer.config", dest="command_config")

    def add_flags(self, *names: str) -> None:
        """Add options without a value."""
        for name in names:
            self.add_argument(name, action="store_true")


def run_with_cluster(arguments: argparse.Namespace, operation: Callable[[Cluster], int]) -> int:
    """The exit status of an operation. Raises CommandError, and ClientError."""
    try:
        addresses = parse_bootstrap(arguments.bootstrap)
    except ValueError as fault:
        raise CommandError(f"--bootstrap-server: {fault}") from None
    with Cluster(addresses, TIMEOUT_S) as cluster:
        return operation(cluster)


def guarded(what: str, call: Callable[[], int]) -> int:
    """The exit status of a command whose failures are told in one line on standard error, which begins with `what`."""
    try:
        return call()
    except (CommandError, ClientError) as fault:
        sys.stderr.write(f"{what}{fault}\n")
        return 1


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression of the command line. Raises CommandError."""
    try:
        return re.compile(text)
    except re.error as fault:
        raise CommandError(f"{text!r} is no regular expression: {fault}") from None


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Returns what reads an option's whole number, for argparse."""

    def read(text: str) -> int:
        if not (
            text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and least <= int(text[:24]) <= most
        ):
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least} to {most}")
        return int(text)

    return read


INT: Final = whole_number(-1, 2**31 - 1)
SHORT: Final = whole_number(-1, 2**15 - 1)
LONG: Final = whole_number(-(2**63), 2**63 - 1)


def pairs(text: str) -> dict[str, str]:
    """`a=b,c=[d,e]` as Kafka's --add-config takes it. Raises CommandError."""
    values: dict[str, str] = {}
    for part in _split_outside_brackets(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise CommandError(
                f'Invalid entity config: all configs to be added must be in the format "key=val": {part}'
            )
        values[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return values


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def properties_of(given: list[str] | None) -> dict[str, str]:
    """`--property a=b`, each as often as it was given."""
    return dict(text.partition("=")[::2] for text in given or ())


def columns(rows: list[tuple[Any, ...]], widths: tuple[int, ...]) -> str:
    """Rows of left-aligned cells, each at least so wide, one space apart, as Kafka's commands print them."""
    return "".join(
        " ".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)) + "\n" for row in rows
    )
