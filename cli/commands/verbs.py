"""Common parts of the commands `stuntbroker NOUN VERB ...`, from their arguments to the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stuntbroker.cli.arguments import UsageError, bootstrap, number, options, seconds, unknown_command
from stuntbroker.cli.client_security import security
from stuntbroker.cli.tables import shown
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import ClientError

COMMAND_TIMEOUT_S: Final = 60.0
CONNECTION_OPTIONS: Final = ("--bootstrap", "--command-config")
COMMON_OPTIONS: Final = (*CONNECTION_OPTIONS, "--timeout")
COMMON_USAGE: Final = """\
                     --bootstrap HOST:PORT         default localhost:9092; more than one with commas
                     --command-config FILE         security of the connection: properties as for Kafka's clients
                     --timeout SECONDS             time-out of the whole command (default 60)
                     --json                        print one JSON document instead of a table
  Exit status: 0 success, 1 failure with a message, 2 invalid command line.
"""

Options = dict[str, list[str]]


class Shown(NamedTuple):
    """Output of a command, as text and as a JSON document. `failure`: message about what could not be done."""

    text: str
    document: Any
    failure: str = ""
    is_data: bool = True
    """False: the text only says what was done, and goes to standard error."""


Operation = Callable[[Cluster], Shown]


class Verb(NamedTuple):
    """One command: `prepare` checks the arguments and returns the operation on the cluster. Raises UsageError."""

    prepare: Callable[[Options], Operation]
    options: tuple[str, ...] = ()
    """Options with a value, in addition to COMMON_OPTIONS."""
    flags: tuple[str, ...] = ()
    """Options without a value, in addition to --json."""
    words: str = ""
    """Name of the positional arguments, as `NAME` or `NAME...`; `prepare` gets them under the key ""."""


def states(given: Options, known: Iterable[str]) -> Sequence[str]:
    """Return the values of --state. Raises UsageError for an unknown state."""
    known = list(known)
    for state in given.get("--state", ()):
        if state not in known:
            raise UsageError(f"--state {state!r}: it must be one of {', '.join(known)}")
    return given.get("--state", ())


def run_verb(noun: str, verbs: Mapping[str, Verb], arguments: list[str]) -> int:
    """Run a command; return the exit status. Raises UsageError."""
    name, others = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name not in verbs:
        raise unknown_command(name, verbs, noun)
    return run_operation(f"{noun} {name}", verbs[name], others)


def run_operation(command: str, verb: Verb, arguments: list[str]) -> int:
    """Run a command with the arguments after its name; return the exit status. Raises UsageError."""
    given = options(
        arguments, (*verb.options, *COMMON_OPTIONS), ("--json", *verb.flags), has_positionals=bool(verb.words)
    )
    words = given.get("", [])
    if verb.words and not words and not verb.words.startswith("["):
        raise UsageError(f"{command} needs {verb.words}")
    if len(words) > 1 and not verb.words.endswith("..."):
        raise UsageError(f"{command} takes one {verb.words}, not {len(words)}")
    operation = verb.prepare(given)
    addresses = bootstrap(given)
    timeout_s = seconds(given, "--timeout", COMMAND_TIMEOUT_S)
    secured_by = security(given)
    try:
        with Cluster(addresses, timeout_s, is_total=True, security=secured_by) as cluster:
            result = operation(cluster)
    except ClientError as fault:
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}\n")
        return 1
    if "--json" in given:
        sys.stdout.write(json.dumps(result.document, indent=2) + "\n")
    else:
        (sys.stdout if result.is_data else sys.stderr).write(result.text)
    if result.failure:
        sys.stderr.write(f"stuntbroker: {shown(result.failure)}\n")
    return 1 if result.failure else 0


def optional_number(given: Options, name: str, low: int, high: int) -> int | None:
    """Return an option's whole number, or None when it was not given. Raises UsageError."""
    return number(given, name, 0, low, high) if name in given else None


def key_values(given: Options, name: str) -> dict[str, str]:
    """Return the `KEY=VALUE` pairs of an option that may be repeated. Raises UsageError."""
    pairs = {}
    for text in given.get(name, ()):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{name} {text!r}: it must be KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
