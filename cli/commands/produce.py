"""`stuntbroker produce`: writes records to a topic of any Kafka, in a transaction or without one."""

from __future__ import annotations

import json
import logging
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError, bootstrap, choice, non_empty_value, options, seconds, single
from stuntbroker.cli.client_security import security
from stuntbroker.cli.commands.verbs import COMMAND_TIMEOUT_S, Options, optional_number
from stuntbroker.cli.tables import shown
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import (
    Appended,
    NewRecord,
    any_partition,
    batches_by_partition,
    partition_count,
    produce,
)
from stuntbroker.client.errors import ClientError
from stuntbroker.pipeline.counting import count
from stuntbroker.protocol.batches.records import CODEC_NAMES
from stuntbroker.protocol.primitives import INT32_MAX

USAGE: Final = """\
usage: stuntbroker produce TOPIC [VALUE...] [options]

Writes a record for each VALUE, or for each line of standard input, with acks=all. The broker creates a missing topic if
auto.create.topics.enable is set.

  --key KEY                key of all records
  --key-separator TEXT     separates key and value in each VALUE or line
  --header NAME=VALUE      header of all records; may be repeated
  --partition P            default: by the hash of the key, as Kafka's clients do; without keys, random for each batch
  --null                   write one record without a value, which deletes its key in a compacted topic
  --from-json              values are JSON documents with key, value, headers, partition: as from `consume --json`
  --compression none|gzip|snappy|lz4|zstd   (default none)
  --transactional-id ID    write all records in one transaction, and commit it
  --abort                  abort the transaction
  --leave-open             leave the transaction open, so that it times out
  --transaction-timeout-ms N   (default 60000)
  --bootstrap HOST:PORT    default localhost:9092; more than one with commas
  --command-config FILE    security of the connection: properties as for Kafka's clients
  --timeout SECONDS        time-out of each request with its retries (default 60)
  --json                   print partitions and offsets of the records as a JSON document

Exit status: 0 all records are written, 1 failure with a message, 2 invalid command line.

Examples:
  stuntbroker produce payments "42 EUR" --key alice --transactional-id payments-1
  stuntbroker produce orders --key-separator : < lines.txt
"""
OPTIONS: Final = (
    "--key",
    "--key-separator",
    "--header",
    "--partition",
    "--compression",
    "--transactional-id",
    "--transaction-timeout-ms",
    "--bootstrap",
    "--command-config",
    "--timeout",
)
FLAGS: Final = ("--null", "--from-json", "--abort", "--leave-open", "--json")
SHOWN_MAX: Final = 80
"""Maximum characters of an invalid line that an error message shows."""
FIELDS: Final = ("key", "value", "headers", "partition")
"""Fields of a JSON document that are written; the other fields of `consume --json` are ignored."""
FIELDS_OF_CONSUME: Final = ("topic", "offset", "timestamp_ms", "producer_id", "producer_epoch", "transactional")


def produce_command(arguments: list[str]) -> int:
    """Write records; return the exit status. Raises UsageError."""
    given = options(arguments, OPTIONS, FLAGS, has_positionals=True)
    if not given.get(""):
        raise UsageError("produce needs TOPIC")
    topic, *values = given[""]
    compression = choice(given, "--compression", *CODEC_NAMES)
    transactional_id = non_empty_value(given, "--transactional-id")
    if not transactional_id and {"--abort", "--leave-open", "--transaction-timeout-ms"} & given.keys():
        raise UsageError("--abort, --leave-open and --transaction-timeout-ms need --transactional-id ID")
    if "--abort" in given and "--leave-open" in given:
        raise UsageError("--abort and --leave-open exclude each other")
    if "--null" in given and (values or "--key" not in given):
        raise UsageError("--null needs --key KEY, and no VALUE")
    appended: list[Appended] = []
    records = _records(given, values)
    addresses = bootstrap(given)
    timeout_s = seconds(given, "--timeout", COMMAND_TIMEOUT_S)
    secured_by = security(given)
    try:
        if transactional_id:
            timeout_ms = optional_number(given, "--transaction-timeout-ms", 1, INT32_MAX) or 60_000
            end = "abort" if "--abort" in given else "leave open" if "--leave-open" in given else "commit"
            producer = _Transaction(transactional_id, timeout_ms, end)
            with Cluster(addresses, timeout_s, security=secured_by) as cluster:
                appended, outcome = producer.produce(cluster, topic, records, compression)
        else:
            outcome = "wrote"
            with Cluster(addresses, timeout_s, security=secured_by) as cluster:
                produce(cluster, topic, records, compression=compression, choose=any_partition, written=appended)
    except (ClientError, InputError) as fault:
        written = sum(each.records for each in appended)
        shows_count = not transactional_id and (written or isinstance(fault, InputError))
        before = (
            f"; {count(written, 'record')} {'was' if written == 1 else 'were'} written before that"
            if shows_count
            else ""
        )
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}{before}\n")
        return 1
    if "--json" in given:
        document = {"topic": topic, "batches": [each._asdict() for each in appended]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stderr.write(f"{outcome} {count(sum(each.records for each in appended), 'record')} to {shown(topic)}\n")
    return 0


class InputError(Exception):
    """An invalid record on standard input. The message has the line and the reason."""


class _Transaction:
    """Writes all records in one transaction of a TransactionalProducer, whose aiokafka takes longer to import."""

    def __init__(self, transactional_id: str, timeout_ms: int, end: str) -> None:
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._end = end

    def produce(
        self, cluster: Cluster, topic: str, records: Iterable[NewRecord], compression: str
    ) -> tuple[list[Appended], str]:
        """Produce records in a transaction; return the appended batches and the outcome. Raises ClientError."""
        from aiokafka.errors import KafkaError

        from stuntbroker.client.transactional_errors import OperationTimedOutError

        partitions = partition_count(cluster, topic)  # Fails immediately if there is no broker.
        producer = cluster.producer(self._transactional_id, transaction_timeout_ms=self._timeout_ms)
        is_left_open = False
        logging.disable()  # The final message reports what would be logged on the way.
        try:
            producer.init_transactions()
            producer.begin_transaction()
            sent = [
                (partition, producer.send_batch(batch, topic, partition=partition), count)
                for partition, batch, count in batches_by_partition(
                    records, partitions, compression, choose=any_partition
                )
            ]
            producer.flush()
            if self._end == "commit":
                producer.commit_transaction()
            elif self._end == "abort":
                producer.abort_transaction()
            else:
                is_left_open = True
        except KafkaError as fault:
            is_left_open = isinstance(fault, OperationTimedOutError)  # Otherwise `stop` would wait again.
            raise ClientError(str(fault)) from fault
        finally:
            producer.stop(leave_open=is_left_open)
            logging.disable(logging.NOTSET)
        appended = [Appended(partition, record.result().offset, count) for partition, record, count in sent]
        return appended, {"commit": "committed", "abort": "aborted", "leave open": "left open"}[self._end]


def _header(text: str) -> tuple[str, bytes | None]:
    """Return a header, of which a record may have several with one name. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text!r}: it must be KEY=VALUE")
    return name, _bytes(value)


def _records(given: Options, values: list[str]) -> Iterator[NewRecord]:
    """Return the records of the command line, or of standard input; iterating over the latter may raise InputError.

    Raises UsageError for an invalid value of the command line.
    """
    key = single(given, "--key", "") if "--key" in given else None
    separator = non_empty_value(given, "--key-separator")
    if key is not None and separator:
        raise UsageError("--key and --key-separator exclude each other")
    partition = optional_number(given, "--partition", 0, INT32_MAX)
    headers = tuple(map(_header, given.get("--header", ())))
    is_json = "--from-json" in given
    if "--null" in given:
        return iter([NewRecord(_bytes(key), None, headers, partition)])

    def record(text: str) -> NewRecord:
        if is_json:
            return _from_json(text, partition)
        own_key, value = key, text
        if separator:
            own_key, there, value = text.partition(separator)
            if not there:
                raise ValueError(f"there is no {separator!r} in it (--key-separator)")
        return NewRecord(_bytes(own_key), _bytes(value), headers, partition)

    def records_of_lines() -> Iterator[NewRecord]:
        for number, line in enumerate(_lines(), 1):
            try:
                yield record(line)
            except ValueError as fault:
                raise InputError(f"line {number}, {_cut(line)!r}: {fault}") from None

    if not values:
        return records_of_lines()
    new_records = []
    for text in values:
        try:
            new_records.append(record(text))
        except ValueError as fault:
            raise UsageError(f"the value {_cut(text)!r}: {fault}") from None
    return iter(new_records)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."


def _lines() -> Iterator[str]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _from_json(text: str, partition: int | None) -> NewRecord:
    """Parse a JSON document to a record. Raises ValueError."""
    try:
        document: Any = json.loads(text)
    except ValueError as fault:
        raise ValueError(f"it is no JSON: {fault}") from None
    if not isinstance(document, dict):
        raise ValueError("it must be a JSON object with a value")
    if "marker" in document:
        raise ValueError("a transaction marker cannot be produced; `consume` without --show-markers omits markers")
    unknown = [name for name in document if name not in FIELDS and name not in FIELDS_OF_CONSUME]
    if unknown:
        raise ValueError(f"there is no field {unknown[0]!r}; there are {', '.join(FIELDS)}")
    if "value" not in document:
        raise ValueError("it has no value; null is one, which deletes its key in a compacted topic")
    listed = document.get("headers") or []
    if not (isinstance(listed, list) and all(isinstance(each, list) and len(each) == 2 for each in listed)):
        raise ValueError("headers must be a list of [name, value]")
    headers = []
    for name, value in listed:
        if not isinstance(name, str):
            raise ValueError(f"the name of a header must be text, not {name!r}")
        name.encode()
        headers.append((name, _content(f"the header {name!r}", value)))
    at = document.get("partition") if partition is None else partition
    if not (at is None or (isinstance(at, int) and not isinstance(at, bool))):
        raise ValueError(f"partition {at!r} is no number")
    return NewRecord(_content("key", document.get("key")), _content("value", document["value"]), tuple(headers), at)


def _content(name: str, value: object) -> bytes | None:
    """Return the bytes of a text, of null, or of `{"base64": ...}`. Raises ValueError."""
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(encoded := value["base64"], str):
        try:
            return b64decode(encoded, validate=True)
        except ValueError as fault:
            raise ValueError(f"{name} is no base64: {fault}") from None
    if value is not None and not isinstance(value, str):
        raise ValueError(f'{name} must be text, null or {{"base64": ...}}, not {value!r:.80}')
    return _bytes(value)
