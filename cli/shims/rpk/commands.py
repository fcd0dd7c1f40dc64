"""What the commands of rpk have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import INT, Parser, pattern
from stuntbroker.cli.tables import table
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import BrokerError, NotFound

NONE: Final = "-"
"""Where there is nothing to print in a column."""


class Command(NamedTuple):
    """What adds a command's options, and what runs it and returns the exit status."""

    add_options: Callable[[Parser], None]
    run: Callable[[Cluster, argparse.Namespace], int]


def for_each(what: str, names: list[str], operation: Callable[[str], None]) -> int:
    """Do the same with each, and print what became of it. The exit status is 1 if one failed."""
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


def is_matched(name: str, expressions: list[str]) -> bool:
    """Whether one of the expressions behind `--regex` is about the whole name; `*` alone is about every name."""
    return any(text == "*" or pattern(text).fullmatch(name) for text in expressions)


def partition_numbers(text: str) -> list[int]:
    """`0,2` as numbers, for argparse."""
    return [INT(part) for part in text.split(",")]
