"""Output format and time-outs of kafka-console-consumer, with and without a group."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from struct import Struct

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.client.commands.reader import Row

WAIT_MS = 500
COMMIT_S = 5.0
"""Seconds between two commits of a group's offsets, the default of a consumer's auto.commit.interval.ms."""
NONE_IN_TIME = "Error processing message, terminating consumer process: no record arrived in time\n"


def finish(options: argparse.Namespace, records: int) -> None:
    """Print what the console consumer prints at its end."""
    sys.stderr.write(f"Processed a total of {records} messages\n")
    if options.enable_systest_events:
        sys.stdout.write("shutdown_complete\n")
        sys.stdout.flush()


def deadline_of(timeout_ms: int | None) -> float:
    """Return the time at which to stop if no record arrives before, in seconds of the monotonic clock."""
    return float("inf") if timeout_ms is None or timeout_ms < 0 else time.monotonic() + timeout_ms / 1000


DESERIALIZERS = {
    "Integer": ">i",
    "Long": ">q",
    "Short": ">h",
    "Float": ">f",
    "Double": ">d",
}
"""Kafka's deserializer of a number -> format for `struct`."""
INTERNAL_FORMATTERS = ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter", "TransactionLogMessageFormatter")
"""Kafka's formatters for the records of groups, their offsets, and transactions."""
DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


def formatter_of(name: str, properties: dict[str, str]) -> Formatter:
    """Return Kafka's formatter with this class name. Raises CommandError for an unsupported one."""
    match name.rpartition(".")[2]:
        case "DefaultMessageFormatter":
            return Formatter(properties)
        case "NoOpMessageFormatter":
            return NoFormatter(properties)
        case short if short in INTERNAL_FORMATTERS:
            from stuntbroker.cli.shims.internal_records import shown_as_json

            return InternalFormatter(short, shown_as_json)
    # Unlike Kafka: Kafka's command loads any class.
    known = ", ".join(("DefaultMessageFormatter", "NoOpMessageFormatter", *INTERNAL_FORMATTERS))
    raise CommandError(f"the formatter {name} is not supported; these are: {known}")


def deserializer_of(name: str) -> Callable[[bytes], bytes]:
    """Return a function that converts a key or value to text, for a deserializer class of Kafka. Raises CommandError."""
    kind = name.rpartition(".")[2].removesuffix("Deserializer")
    if kind in ("", "String", "ByteArray", "Bytes", "ByteBuffer", "UUID"):  # A UUID is sent as text.
        return bytes
    if kind not in DESERIALIZERS:
        raise CommandError(f"the deserializer {name} is not supported: use Kafka's for text, bytes or numbers")
    form = Struct(DESERIALIZERS[kind])

    def read(data: bytes) -> bytes:
        if len(data) != form.size:
            raise CommandError(f"Size of data received by {kind}Deserializer is not {form.size}")
        return str(form.unpack(data)[0]).encode()

    return read


class Formatter:
    """Formats a record according to the properties of Kafka's DefaultMessageFormatter."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._timestamp, self._partition, self._offset, self._delivery, self._epoch, self._headers, self._key = (
            properties.get(f"print.{name}", "false").lower() == "true"
            for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
        )
        self._value = properties.get("print.value", "true").lower() == "true"
        self._separator = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._read_key = deserializer_of(properties.get("key.deserializer", ""))
        self._read_value = deserializer_of(properties.get("value.deserializer", ""))

    def line(self, partition: int, row: Row, is_log_append: bool) -> bytes:
        """Return the line of a record, with its line separator. `is_log_append`: whether the timestamp is the broker's."""
        parts = []
        if self._timestamp:
            kind = "LogAppendTime" if is_log_append else "CreateTime"
            parts.append(f"{kind}:{row.timestamp_ms}".encode() if row.timestamp_ms >= 0 else b"NO_TIMESTAMP")
        if self._partition:
            parts.append(f"Partition:{partition}".encode())
        if self._offset:
            parts.append(f"Offset:{row.offset}".encode())
        if self._delivery:
            parts.append(b"Delivery:NOT_PRESENT")
        if self._epoch:  # Kafka's command also passes its formatter no epoch.
            parts.append(b"Epoch:NOT_PRESENT")
        if self._headers:
            shown = (name.encode() + b":" + (self._null if value is None else value) for name, value in row.headers)
            parts.append(self._headers_separator.join(shown) or b"NO_HEADERS")
        if self._key:
            parts.append(self._null if row.key is None else self._read_key(row.key))
        if self._value:
            parts.append(self._null if row.value is None else self._read_value(row.value))
        return self._separator.join(parts) + self._end


class NoFormatter(Formatter):
    """Formatter that prints nothing, for counting records."""

    def line(self, partition: int, row: Row, is_log_append: bool) -> bytes:
        """Return no bytes."""
        return b""


class InternalFormatter(Formatter):
    """Formats the records of an internal topic as JSON, without a line separator, as Kafka's formatter of this name does."""

    def __init__(self, name: str, shown_as_json: Callable[[str, bytes, bytes | None], str]) -> None:
        self._name = name
        self._shown_as_json = shown_as_json

    def line(self, partition: int, row: Row, is_log_append: bool) -> bytes:
        """Return the JSON; no bytes for a record of another kind."""
        return b"" if row.key is None else self._shown_as_json(self._name, row.key, row.value).encode()


def write_line(formatter: Formatter, partition: int, row: Row, is_log_append: bool, *, skips_errors: bool) -> None:
    """Print the line of a record. Raises CommandError if it cannot be formatted, unless such records are skipped."""
    try:
        line = formatter.line(partition, row, is_log_append)
    except CommandError as fault:
        if not skips_errors:
            raise
        sys.stderr.write(f"Error processing message, skipping this message: {fault}\n")
        return
    sys.stdout.buffer.write(line)
