"""`rpk topic consume`: prints records as JSON, or in a form of percent verbs, until it is interrupted."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any, Final

from stuntbroker.cli.shims.arguments import INT, LONG, CommandError, Parser
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.reader import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Row, Tail, list_offset
from stuntbroker.client.topics import describe_topics

WAIT_MS: Final = 500
VERBS: Final = re.compile(r"%(.)|\\(.)", re.DOTALL)
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def add_options(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--num", "-n", type=LONG, default=0)
    parser.add_argument("--offset", "-o", default="start")
    parser.add_argument("--partitions", "-p", type=INT, action="append")
    parser.add_argument("--format", "-f", default="json")
    parser.add_flags("--read-committed")


def consume(cluster: Cluster, options: argparse.Namespace) -> int:
    """Print records until there were `--num` of them; return the exit status."""
    _formatted(options.format, "", 0, None)  # Refuses a form before anything is read.
    isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
    places = [
        (topic.name, each.partition)
        for topic in describe_topics(cluster, options.topics)
        for each in topic.partitions
        if not options.partitions or each.partition in options.partitions
    ]
    tail = Tail(cluster, {place: _offset(cluster, place, options.offset) for place in places}, isolation)
    count = 0
    while not options.num or count < options.num:
        for topic, partition, batch in tail.poll(WAIT_MS):
            for row in batch.rows:
                if options.num and count >= options.num:
                    break
                sys.stdout.write(_formatted(options.format, topic, partition, row))
                count += 1
        sys.stdout.flush()
    return 0


def _offset(cluster: Cluster, place: tuple[str, int], text: str) -> int:
    if text in ("start", "end"):
        return list_offset(cluster, *place, EARLIEST if text == "start" else LATEST, READ_UNCOMMITTED)
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise CommandError(f"--offset {text!r}: here it is start, end or a number")


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8", "replace")


def _formatted(form: str, topic: str, partition: int, row: Row | None) -> str:
    """A record in the form that was asked for; nothing for None. Raises CommandError for a form that is not there."""
    if form == "json":
        return "" if row is None else _as_json(topic, partition, row)
    values = {"%": "%", "t": topic, "p": str(partition), "k": "", "v": "", "o": "", "d": ""}
    if row is not None:
        values |= {"k": _text(row.key), "v": _text(row.value), "o": str(row.offset), "d": str(row.timestamp_ms)}

    def value_of(match: re.Match[str]) -> str:
        verb, escape = match.groups()
        if verb is not None and verb not in values:
            raise CommandError(f"--format: %{verb} is not here; there are json, %t %p %o %k %v %d and %%")
        return values[verb] if verb is not None else ESCAPES.get(escape, escape)

    text = VERBS.sub(value_of, form)
    return "" if row is None else text


def _as_json(topic: str, partition: int, row: Row) -> str:
    document: dict[str, Any] = {"topic": topic}
    if row.key is not None:
        document["key"] = _text(row.key)
    document["value"] = _text(row.value)
    if row.headers:
        document["headers"] = [{"key": name, "value": _text(value)} for name, value in row.headers]
    document |= {"timestamp": row.timestamp_ms, "partition": partition, "offset": row.offset}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
