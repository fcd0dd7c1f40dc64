"""kafka-console-producer: writes a record for each line of standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from stuntbroker.cli.shims.arguments import (
    CommandError,
    Parser,
    client_properties,
    guarded,
    properties_of,
    run_with_cluster,
)
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import NewRecord, any_partition, produce
from stuntbroker.protocol.batches.records import CODEC_NAMES, Headers

READ_SIZE = 1 << 20
"""Maximum bytes to read at once; their lines are sent together."""

WITHOUT_EFFECT = (
    "--batch-size",
    "--max-block-ms",
    "--max-memory-bytes",
    "--max-partition-memory-bytes",
    "--message-send-max-retries",
    "--metadata-expiry-ms",
    "--request-timeout-ms",
    "--retry-backoff-ms",
    "--socket-buffer-size",
    "--timeout",
)
LINE_READERS = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
"""Kafka's reader of lines, by its name today and that of older versions."""
ACKS = ("all", "-1", "0", "1")


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded("", lambda: _run(command, arguments))


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options("--broker-list")
    parser.add_argument("--topic", required=True, help="topic to write to")
    parser.add_argument(
        "--property",
        "--reader-property",
        dest="reader",
        action="append",
        metavar="KEY=VALUE",
        help="how lines are read: parse.key, parse.headers, ignore.error=true; key.separator, headers.delimiter, "
        "headers.separator, headers.key.separator, null.marker=TEXT",
    )
    parser.add_argument(
        "--reader-config", type=client_properties, default={}, metavar="FILE", help="file of what --property takes"
    )
    parser.add_argument(
        "--producer-property",
        "--command-property",
        dest="producer",
        action="append",
        metavar="KEY=VALUE",
        help="a property of the producer, such as acks=all",
    )
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        default="none",
        choices=CODEC_NAMES,
        help="compression of the batches (default: none; without a value: gzip)",
    )
    # Unlike Kafka: records always use acks=all, and are sent as soon as no more lines are available.
    for name in WITHOUT_EFFECT:
        parser.add_argument(name, metavar="N", help="no effect")
    parser.add_argument(
        "--line-reader", default=LINE_READERS[0], metavar="CLASS", help="Kafka's class that reads lines"
    )
    parser.add_argument("--request-required-acks", default="all", metavar="ACKS", help="no effect: acks is always all")
    parser.add_flags({"--sync": "no effect: records are sent as soon as no more lines are there"})
    options = parser.parse_args(arguments)
    if options.line_reader not in LINE_READERS:  # Unlike Kafka: Kafka's command loads any class.
        raise CommandError(f"the line reader {options.line_reader} is not supported; there is {LINE_READERS[0]}")
    reader = LineReader(options.reader_config | properties_of(options.reader))
    producer = options.command_config = (options.command_config or {}) | properties_of(options.producer)
    acks = producer.get("acks", options.request_required_acks)
    if acks not in ACKS:
        raise CommandError(f"Invalid value {acks} for configuration acks: String must be one of: {', '.join(ACKS)}")

    def operation(cluster: Cluster) -> int:
        for lines in _lines():
            records = [reader.record(number, line) for number, line in lines]
            produce(cluster, options.topic, records, compression=options.compression_codec, choose=any_partition)
        return 0

    return run_with_cluster(options, operation)


def _lines() -> Iterator[list[tuple[int, str]]]:
    """Yield lists of numbered lines, each with all lines that are available.

    As in Java, a line ends with a carriage return, a line feed, or both.
    """
    number, unfinished, had_return, is_terminal = 0, b"", False, sys.stdin.isatty()
    while True:
        if is_terminal:
            sys.stdout.write(">")
            sys.stdout.flush()
        data = os.read(sys.stdin.fileno(), READ_SIZE)
        is_end = not data
        end_of_return = b"\n" if had_return else b""
        with_line_feeds = data.removeprefix(end_of_return).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = with_line_feeds.split(b"\n")
        had_return = data.endswith(b"\r")
        *whole, unfinished = [unfinished + first, *others]
        if is_end and unfinished:
            whole = [unfinished]
        lines = []
        for line in whole:
            number += 1
            lines.append((number, line.decode("utf-8", "surrogateescape")))
        if lines:
            yield lines
        if is_end:
            return


class LineReader:
    """Converts a line to a record according to the properties of Kafka's LineMessageReader."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._parse_key = properties.get("parse.key", "false").lower() == "true"
        self._parse_headers = properties.get("parse.headers", "false").lower() == "true"
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._ignore_error = properties.get("ignore.error", "false").lower() == "true"
        self._null = properties.get("null.marker")

    def record(self, number: int, line: str) -> NewRecord:
        """Convert a line to a record. Raises CommandError if a required separator is missing."""
        headers: Headers = ()
        key: str | None = None
        value = line
        if self._parse_headers:
            text, value = self._cut(value, self._headers_delimiter, "headers delimiter", number)
            if text is not None and text != self._null:
                headers = tuple(self._header(part, number) for part in text.split(self._headers_separator))
        if self._parse_key:
            key, value = self._cut(value, self._key_separator, "key separator", number)
        return NewRecord(self._bytes(key), self._bytes(value), headers)

    def _cut(self, text: str, separator: str, what: str, number: int) -> tuple[str | None, str]:
        before, there, after = text.partition(separator)
        if there:
            return before, after
        if self._ignore_error:
            return None, text
        raise CommandError(f"No {what} found on line number {number}: '{text}'")

    def _header(self, text: str, number: int) -> tuple[str, bytes | None]:
        name, value = self._cut(text, self._header_key_separator, "header key separator", number)
        return name if name is not None else text, self._bytes(value) if name is not None else None

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "surrogateescape")
