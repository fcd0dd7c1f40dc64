"""Common parts of Kafka's commands: parsing of options, access to the cluster, and reporting of failures."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from stuntbroker.cli.client_security import security_of_command
from stuntbroker.cli.shims.java_errors import shown_in_java
from stuntbroker.cli.waiting import wait_and_say_so
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import BrokerError, ClientError
from stuntbroker.client.security_properties import SecurityError
from stuntbroker.protocol.addresses import BOOTSTRAP_DEFAULT, parse_bootstrap
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX, INT64_MAX, INT64_MIN

TIMEOUT_S: Final = 30.0
BROKER_WAIT_S: Final = 60.0
"""How long, in seconds, to wait for a broker, as Kafka's commands do: scripts start both at the same time."""
_PROTOCOL: Final = re.compile(r"\b[A-Z_]+://")
"""Kafka's clients take an address with its security protocol, which has no meaning there."""


class CommandError(Exception):
    """An error that Kafka's command prints before it exits with 1."""


class UsageFault(CommandError):
    """An error in the options, which Kafka's command prints without saying that it was executing."""


class _Once(argparse.Action):
    """Keeps the only value of an option."""

    _given_as: str | None = None

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        # Older and newer names of an option may be given together, as scripts for several versions do.
        if option is not None and option == self._given_as:
            raise CommandError(f"Found multiple arguments for option {option.lstrip('-')}, but you asked for only one")
        self._given_as = option
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Parser of options like those of Kafka's commands: `--name value`, `--name=value`, and unambiguous abbreviations."""

    def __init__(self, command: str, suffix: str = ".sh", *, as_jopt: bool = False) -> None:
        """`as_jopt`: as most of Kafka's commands, which use the library joptsimple: words that belong to no option are ignored,
        and an option with one value may be given once only.
        """
        super().__init__(prog=f"{command}{suffix}", add_help=True)
        self._ignores_words = as_jopt
        if as_jopt:
            self.register("action", None, _Once)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the options. Raises UsageFault."""
        options, others = self.parse_known_args(args, namespace)
        unknown = [word for word in others if word.startswith("-") or not self._ignores_words]
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Raise UsageFault: Kafka's commands exit with 1, not 2, on a usage error."""
        raise UsageFault(message)

    def add_cluster_options(self, *names: str, config_names: Sequence[str] = ()) -> None:
        """Add `--bootstrap-server`, and `--command-config` for a file of client properties, each with its other names."""
        # Unlike Kafka: the option is optional, and defaults to the address in most images.
        self.add_argument(
            "--bootstrap-server",
            *names,
            dest="bootstrap",
            metavar="HOST:PORT",
            help=f"brokers to connect to, with commas between them (default: {BOOTSTRAP_DEFAULT})",
        )
        self.add_argument("--zookeeper", help="an option of older versions: there is no ZooKeeper")
        # Unlike Kafka: options of older versions are accepted without a warning.
        # Unlike Kafka: of the properties, those of security have an effect, and a few more.
        self.add_argument(
            "--command-config",
            "--consumer.config",
            "--producer.config",
            *config_names,
            dest="command_config",
            metavar="FILE",
            type=client_properties,
            help="file of properties, such as security.protocol and sasl.jaas.config",
        )

    def flags(self) -> frozenset[str]:
        """Return the options that take no value."""
        return frozenset(name for action in self._actions if action.nargs == 0 for name in action.option_strings)

    def add_flags(self, flags: Mapping[str, str]) -> None:
        """Add options without a value: name -> explanation."""
        for name, explanation in flags.items():
            self.add_argument(name, action="store_true", help=explanation)


def run_with_cluster(
    arguments: argparse.Namespace, operation: Callable[[Cluster], int], wait_s: float | None = None
) -> int:
    """Wait for a broker, run an operation, and return its exit status. Raises CommandError, and ClientError."""
    bootstrap = arguments.bootstrap or BOOTSTRAP_DEFAULT
    if (zookeeper := getattr(arguments, "zookeeper", None)) is not None:
        sys.stderr.write(
            f"--zookeeper {zookeeper}: there is no ZooKeeper; the command uses the broker at {bootstrap}\n"
        )
    try:
        addresses = parse_bootstrap(_PROTOCOL.sub("", bootstrap))
    except ValueError as fault:
        raise CommandError(f"--bootstrap-server: {fault}") from None
    try:
        security = security_of_command(arguments.command_config or {})
    except SecurityError as fault:
        raise CommandError(str(fault)) from None
    with Cluster(addresses, TIMEOUT_S, security=security) as cluster:
        wait_and_say_so(lambda _: cluster.metadata([]), BROKER_WAIT_S if wait_s is None else wait_s)
        return operation(cluster)


def client_properties(path: str) -> dict[str, str]:
    """Return the properties in a file for clients; an argument type for argparse."""
    from stuntbroker.cli.serving.properties import parse_java

    try:
        with open(path, "rb") as file:
            return parse_java(file.read())
    except (OSError, ValueError) as fault:
        raise argparse.ArgumentTypeError(f"{path}: {getattr(fault, 'strerror', None) or fault}") from None


def guarded(
    what: str,
    call: Callable[[], int],
    *,
    failures_on_stdout: bool = False,
    names_exceptions: bool = False,
    failure_status: int = 1,
) -> int:
    """Run a command; return its exit status. Prints a failure as one line that begins with `what`, unless the usage is wrong.

    Some of Kafka's commands print failures on standard output, name the Java exception of a broker's error, or exit with 0
    after a failure. Wrong usage goes to standard error, and its exit status is 1.
    """
    try:
        return call()
    except UsageFault as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    except (CommandError, ClientError) as fault:
        if names_exceptions and isinstance(fault, ClientError):
            text = shown_in_java(fault)
        else:
            text = (isinstance(fault, BrokerError) and fault.message) or str(fault)
        (sys.stdout if failures_on_stdout else sys.stderr).write(f"{what}{text}\n")
        return failure_status


def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression of the command line. Raises CommandError."""
    try:
        return re.compile(text)
    except re.error as fault:
        raise CommandError(f"{text!r} is no regular expression: {fault}") from None


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return an argument type for argparse: an integer from `least` to `most`."""

    def read(text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and least <= int(text[:24]) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least} to {most}")
        return int(text)

    return read


INT: Final = whole_number(-1, INT32_MAX)
SHORT: Final = whole_number(-1, INT16_MAX)
PARTITION_COUNT: Final = whole_number(1, INT32_MAX)
REPLICATION_FACTOR: Final = whole_number(1, INT16_MAX)
LONG: Final = whole_number(INT64_MIN, INT64_MAX)


def pairs(text: str) -> dict[str, str]:
    """Parse `a=b,c=[d,e]`, the syntax of Kafka's --add-config. Raises UsageFault."""
    values: dict[str, str] = {}
    for part in _split_outside_brackets(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageFault(f'Invalid entity config: all configs to be added must be in the format "key=val": {part}')
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
    """Parse the values of a repeated option such as `--property a=b`."""
    return dict(text.partition("=")[::2] for text in given or ())


def columns(rows: list[tuple[Any, ...]], widths: tuple[int, ...]) -> str:
    """Format rows of left-aligned cells with these minimum widths, one space apart, as Kafka's commands do."""
    return "".join(
        " ".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)) + "\n" for row in rows
    )
