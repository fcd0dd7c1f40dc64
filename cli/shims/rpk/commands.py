"""Common parts of the commands of rpk."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import INT, Parser, pattern
from stuntbroker.cli.tables import table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import BrokerError, NotFound

NONE: Final = "-"
"""Printed in a column without a value."""
REGEX_HELP: Final = "take the names for regular expressions"
PARTITIONS_HELP: Final = "some of the partitions (default: all)"


class Command(NamedTuple):
    """A command: a function that adds its options, and one that runs it and returns the exit status."""

    add_options: Callable[[Parser], None]
    run: Callable[[Cluster, argparse.Namespace], int]


def for_each(what: str, names: list[str], operation: Callable[[str], None]) -> int:
    """Run an operation for each name and print a table of the results; return exit status 1 if one failed, else 0."""
    rows = []
    for name in names:
        try:
            operation(name)
            rows.append((name, "OK"))
        except NotFound:
            rows.append((name, "GROUP_ID_NOT_FOUND" if what == "GROUP" else "UNKNOWN_TOPIC_OR_PARTITION"))
        except BrokerError as fault:
            rows.append((name, fault.message or str(fault)))
    sys.stdout.write(table((what, "STATUS"), rows))
    return int(any(status != "OK" for _, status in rows))


def sections_text(sections: Mapping[str, str]) -> str:
    """Return sections below their titles; a single one without its title."""
    if len(sections) == 1:
        return "".join(sections.values())
    return "".join(f"{title}\n{'=' * len(title)}\n{text}\n" for title, text in sections.items())


def is_matched(name: str, expressions: list[str]) -> bool:
    """Return whether one of the expressions of `--regex` matches the whole name; `*` alone matches every name."""
    return any(text == "*" or pattern(text).fullmatch(name) for text in expressions)


def partition_numbers(text: str) -> list[int]:
    """Parse partition numbers such as `0,2`; an argument type for argparse."""
    return [INT(part) for part in text.split(",")]
