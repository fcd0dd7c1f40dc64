"""`rpk topic produce`: writes records from standard input, each as soon as it is complete."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from stuntbroker.cli.shims.arguments import INT, CommandError, Parser
from stuntbroker.cli.shims.rpk.parsing import Parsed, read_records
from stuntbroker.cli.shims.rpk.printing import Printed, printer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import NewRecord, any_partition, now_ms, produce
from stuntbroker.client.commands.reader import Row
from stuntbroker.protocol.batches.records import CODEC_NAMES, Headers

SAID: Final = "Produced to partition %p at offset %o with timestamp %d.\\n"


def add_options(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("topic", nargs="?", help="topic to write to, unless --format reads it (%%t)")
    parser.add_argument(
        "--format",
        "-f",
        default="%v\\n",
        help="layout of the records on standard input (default: '%%v\\n', a value per line)",
    )
    parser.add_argument(
        "--output-format", "-o", default=SAID, metavar="FORMAT", help="layout of the lines that are printed"
    )
    parser.add_argument("--key", "-k", help="key of all records that have none")
    parser.add_argument(
        "--header",
        "-H",
        type=_header,
        action="append",
        default=[],
        metavar="KEY:VALUE",
        help="a header; may be repeated",
    )
    parser.add_argument("--partition", "-p", type=INT, metavar="N", help="partition to write to (default: by the key)")
    parser.add_argument("--compression", "-z", choices=CODEC_NAMES, default="snappy", help="(default: %(default)s)")
    parser.add_argument("--tombstone", "-Z", action="store_true", help="write empty values as null")
    parser.add_argument("--acks", type=INT, choices=(-1,), default=-1, help="no effect: acks is always all (-1)")
    parser.add_flags({"--allow-auto-topic-creation": "no effect: the broker's auto.create.topics.enable decides"})


def _header(text: str) -> tuple[str, bytes]:
    key, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY:VALUE")
    return key, value.encode()


def write_records(cluster: Cluster, options: argparse.Namespace) -> int:
    """Write every record of the input; return the exit status."""
    write = printer(options.output_format)
    records = read_records(lambda size: os.read(sys.stdin.fileno(), size), options.format)
    for number, parsed in enumerate(records, start=1):
        topic = parsed.topic or options.topic
        if not topic:
            raise CommandError("give the topic: rpk topic produce TOPIC, or %t in --format")
        timestamp_ms = parsed.timestamp_ms if parsed.timestamp_ms is not None else now_ms()
        record = _record(parsed, options)
        (appended,) = produce(
            cluster,
            topic,
            [record],
            compression=options.compression,
            timestamp_ms=timestamp_ms,
            choose=any_partition,
        )
        row = Row(appended.first_offset, timestamp_ms, record.key, record.value, record.headers)
        sys.stdout.buffer.write(write(Printed(topic, appended.partition, row, number)))
        sys.stdout.flush()
    return 0


def _record(parsed: Parsed, options: argparse.Namespace) -> NewRecord:
    """Return a record from the parsed parts, with defaults from the command line."""
    key = parsed.key if parsed.key is not None or not options.key else options.key.encode()
    value = parsed.value or (None if options.tombstone else b"")
    headers: Headers = (*options.header, *parsed.headers)
    partition = options.partition if parsed.partition is None else parsed.partition
    return NewRecord(key, value, headers, None if partition is None or partition < 0 else partition)
