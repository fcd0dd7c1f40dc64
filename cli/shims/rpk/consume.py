"""`rpk topic consume`: prints records as JSON, or with a layout, until the end of the range or an interruption."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from stuntbroker.cli.shims.arguments import LONG, CommandError, Parser, pattern
from stuntbroker.cli.shims.rpk.commands import PARTITIONS_HELP, REGEX_HELP, partition_numbers
from stuntbroker.cli.shims.rpk.offsets import FORMS, parse_range
from stuntbroker.cli.shims.rpk.printing import Printed, Write, printer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.reader import Batch, Row, Tail
from stuntbroker.client.commands.topics import describe_topics
from stuntbroker.protocol.request_values import READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

WAIT_MS: Final = 500


def add_options(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("topics", nargs="+", help="topics to read")
    parser.add_argument(
        "--num", "-n", type=LONG, default=0, metavar="N", help="stop after N records (default: do not stop)"
    )
    parser.add_argument(
        "--offset",
        "-o",
        default="start",
        metavar="RANGE",
        help=f"from where, and to where: {FORMS} (default: start)",
    )
    parser.add_argument(
        "--partitions", "-p", type=partition_numbers, action="extend", metavar="N,...", help=PARTITIONS_HELP
    )
    parser.add_argument("--format", "-f", default="json", help="json (the default), or a layout such as '%%k %%v\\n'")
    parser.add_argument("--regex", "-r", action="store_true", help=REGEX_HELP)
    parser.add_argument("--meta-only", "-m", action="store_true", help="with --format json: leave out keys and values")
    parser.add_argument(
        "--pretty-print",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="print JSON in several lines (the default)",
    )
    parser.add_flags({"--read-committed": "leave out records of open and aborted transactions"})


def consume(cluster: Cluster, options: argparse.Namespace) -> int:
    """Print records up to `--num` of them, or to the end of `--offset`; return the exit status."""
    if options.format == "json":
        write = _json_printer(indent=2 if options.pretty_print else None, is_meta_only=options.meta_only)
    elif options.meta_only:
        raise CommandError("--meta-only goes with --format json alone")
    else:
        write = printer(options.format)
    isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
    offsets = parse_range(options.offset, isolation)
    places = _places(cluster, options)
    if not places:
        raise CommandError("there is no partition to consume from")
    ends = {place: offsets.end(cluster, place) for place in places} if offsets.end else {}
    starts = {place: offsets.start(cluster, place) for place in places}
    tail = Tail(cluster, starts, isolation)
    count = 0
    while not (offsets.end and all(tail.positions[place] >= ends[place] for place in places)):
        for topic, partition, batch in tail.poll(WAIT_MS):
            for row in batch.rows:
                if offsets.end and row.offset >= ends[topic, partition]:
                    break
                count += 1
                sys.stdout.buffer.write(write(_printed(topic, partition, batch, row, count)))
                if count == options.num:
                    sys.stdout.flush()
                    return 0
        sys.stdout.flush()
    return 0


def _places(cluster: Cluster, options: argparse.Namespace) -> list[TopicPartition]:
    """Return the partitions to read. As in franz-go, an expression may match a part of a name, but no internal topic."""
    topics = describe_topics(cluster, None if options.regex else options.topics)
    if options.regex:
        expressions = [pattern(text) for text in options.topics]
        topics = [
            topic for topic in topics if not topic.is_internal and any(each.search(topic.name) for each in expressions)
        ]
    return [
        (topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if not options.partitions or each.partition in options.partitions
    ]


def _printed(topic: str, partition: int, batch: Batch, row: Row, number: int) -> Printed:
    header = batch.header
    producer = header.producer_id, header.producer_epoch
    return Printed(topic, partition, row, number, header.leader_epoch, *producer, header.attributes)


def _json_printer(indent: int | None, *, is_meta_only: bool) -> Write:
    """Return a function that formats a record as JSON, without empty fields; `is_meta_only`: with the value's size instead."""

    def write(printed: Printed) -> bytes:
        row = printed.row
        document: dict[str, Any] = {"topic": printed.topic}
        if row.key:
            document["key"] = _text(row.key)
        if is_meta_only:
            document["value_size"] = len(row.value or b"")
        elif row.value:
            document["value"] = _text(row.value)
        if row.headers:
            document["headers"] = [{"key": name, "value": _text(value or b"")} for name, value in row.headers]
        document |= {"timestamp": row.timestamp_ms, "partition": printed.partition, "offset": row.offset}
        separators = None if indent else (",", ":")
        return f"{json.dumps(document, indent=indent, separators=separators, ensure_ascii=False)}\n".encode()

    return write


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
