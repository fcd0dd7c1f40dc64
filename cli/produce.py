"""`stuntbroker produce`: writes records to a topic of any Kafka, in a transaction or without one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError, bootstrap, choice, options, seconds, single
from stuntbroker.cli.tables import shown
from stuntbroker.cli.verbs import COMMAND_TIMEOUT_S, Options, key_values, optional_number
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.connection import Address
from stuntbroker.client.errors import ClientError
from stuntbroker.client.producing import (
    CODECS,
    Appended,
    NewRecord,
    any_partition,
    batches_by_partition,
    partition_count,
    produce,
)

USAGE: Final = """\
usage: stuntbroker produce TOPIC [VALUE...] [options]

Writes a record for each VALUE, or for each line of standard input, with acks=all. A topic that does not exist is created
if the broker does so (auto.create.topics.enable).

  --key KEY                the key of every record
  --key-separator TEXT     each value begins with its key and this text
  --header NAME=VALUE      a header of every record; may be repeated
  --partition P            default: by the key as Kafka's clients do; without keys, a random one for each batch
  --null                   one record that has no value: in a compacted topic it deletes its key
  --from-json              each value is a JSON document, as `consume --json` writes them: key, value, headers, partition
  --compression none|gzip|snappy|lz4|zstd   (default none)
  --transactional-id ID    all of them in one transaction, which is committed at the end
  --abort                  abort the transaction instead
  --leave-open             neither commit nor abort it: what the broker does then is its time-out
  --transaction-timeout-ms N   (default 60000)
  --bootstrap HOST:PORT    default localhost:9092; more than one with commas
  --timeout SECONDS        for each request and its repetitions (default 60)
  --json                   say where the records went in JSON

Exit status: 0 all is written, 1 it failed, with a line that says why, 2 the command line is wrong.

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
    "--timeout",
)
FLAGS: Final = ("--null", "--from-json", "--abort", "--leave-open", "--json")
PARTITION_MAX: Final = 2**31 - 1


def produce_command(arguments: list[str]) -> int:
    """Write records; return the exit status. Raises UsageError."""
    given = options(arguments, OPTIONS, FLAGS, with_words=True)
    if not given.get(""):
        raise UsageError("produce needs TOPIC")
    topic, *values = given[""]
    compression = choice(given, "--compression", *CODECS)
    transactional_id = single(given, "--transactional-id", "")
    if not transactional_id and {"--abort", "--leave-open", "--transaction-timeout-ms"} & given.keys():
        raise UsageError("--abort, --leave-open and --transaction-timeout-ms need --transactional-id ID")
    if "--abort" in given and "--leave-open" in given:
        raise UsageError("--abort and --leave-open exclude each other")
    if "--null" in given and (values or "--key" not in given):
        raise UsageError("--null needs --key KEY, and no VALUE")
    records = _records(given, values)
    addresses = bootstrap(given)
    timeout_s = seconds(given, "--timeout", COMMAND_TIMEOUT_S)
    try:
        if transactional_id:
            timeout_ms = optional_number(given, "--transaction-timeout-ms", 1, 2**31 - 1) or 60_000
            end = "abort" if "--abort" in given else "leave open" if "--leave-open" in given else "commit"
            producer = _Transaction(addresses, timeout_s, transactional_id, timeout_ms, end)
            appended, said = producer.produce(topic, records, compression)
        else:
            with Cluster(addresses, timeout_s) as cluster:
                appended, said = (
                    produce(cluster, topic, records, compression=compression, choose=any_partition),
                    "wrote",
                )
    except ClientError as fault:
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}\n")
        return 1
    if "--json" in given:
        document = {"topic": topic, "batches": [each._asdict() for each in appended]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stderr.write(f"{said} {sum(each.records for each in appended)} records to {shown(topic)}\n")
    return 0


class _Transaction:
    """All records in one transaction of a producer of ours, which needs aiokafka: it takes longer to start."""

    def __init__(
        self, addresses: list[Address], timeout_s: float, transactional_id: str, timeout_ms: int, end: str
    ) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._end = end

    def produce(self, topic: str, records: Iterable[NewRecord], compression: str) -> tuple[list[Appended], str]:
        """Where the records went, and what was done with the transaction. Raises ClientError."""
        from aiokafka.errors import KafkaError

        from stuntbroker.client.channel import ChannelCluster
        from stuntbroker.client.producer.errors import OperationTimedOutError

        with ChannelCluster(self._addresses, self._timeout_s) as cluster:
            producer = cluster.producer(self._transactional_id, transaction_timeout_ms=self._timeout_ms)
            is_left_open = False
            try:
                producer.init_transactions()
                partitions = partition_count(cluster, topic)
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
                is_left_open = isinstance(fault, OperationTimedOutError)  # Else it would be waited for once more.
                raise ClientError(str(fault)) from fault
            finally:
                producer.stop(leave_open=is_left_open)
            appended = [Appended(partition, record.result().offset, count) for partition, record, count in sent]
            return appended, {"commit": "committed", "abort": "aborted", "leave open": "left open"}[self._end]


def _records(given: Options, values: list[str]) -> Iterator[NewRecord]:
    """The records of the command line or of standard input. Raises UsageError when one cannot be understood."""
    key = single(given, "--key", "") if "--key" in given else None
    separator = single(given, "--key-separator", "")
    if key is not None and separator:
        raise UsageError("--key and --key-separator exclude each other")
    partition = optional_number(given, "--partition", 0, PARTITION_MAX)
    headers = tuple((name, _bytes(value)) for name, value in key_values(given, "--header").items())
    is_json = "--from-json" in given
    if "--null" in given:
        return iter([NewRecord(_bytes(key), None, headers, partition)])

    def records() -> Iterator[NewRecord]:
        for text in values or _lines():
            if is_json:
                yield _from_json(text, partition)
                continue
            own_key, value = key, text
            if separator:
                own_key, there, value = text.partition(separator)
                if not there:
                    raise UsageError(f"the value {text!r} has no {separator!r} in it (--key-separator)")
            yield NewRecord(_bytes(own_key), _bytes(value), headers, partition)

    return records()


def _lines() -> Iterator[str]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _from_json(text: str, partition: int | None) -> NewRecord:
    try:
        document: Any = json.loads(text)
        listed = document.get("headers") or []
        if not (isinstance(listed, list) and all(isinstance(each, list) and len(each) == 2 for each in listed)):
            raise ValueError("headers must be a list of [name, value]")
        headers = tuple((str(name), _bytes(value)) for name, value in listed)
        for name, _ in headers:
            name.encode()
        at = document.get("partition") if partition is None else partition
        if not (at is None or (isinstance(at, int) and not isinstance(at, bool))):
            raise ValueError(f"partition {at!r} is no number")
        return NewRecord(_bytes(document.get("key")), _bytes(document.get("value")), headers, at)
    except (ValueError, TypeError, AttributeError) as fault:
        raise UsageError(f"{text!r} is no JSON of a record: {fault}") from None
