"""`stuntbroker consume`: prints records of topics of any Kafka, without being a member of a group."""

from __future__ import annotations

import json
import sys
import time
from base64 import b64encode
from functools import partial
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError, bootstrap, choice, non_empty_value, options, seconds, single
from stuntbroker.cli.client_security import security
from stuntbroker.cli.commands.group import places_of, topic_and_partition
from stuntbroker.cli.commands.verbs import COMMAND_TIMEOUT_S, Options, optional_number
from stuntbroker.cli.signals import Ended, noting_sigterm
from stuntbroker.cli.tables import instant, shown
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.groups import commit_offsets, committed_offsets
from stuntbroker.client.commands.reader import Batch, Marker, Row, Tail
from stuntbroker.client.errors import ClientError
from stuntbroker.protocol.primitives import INT64_MAX
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

USAGE: Final = """\
usage: stuntbroker consume TOPIC[:PARTITION]... [options]

Prints the value of each record on a line, up to the current end of the topics, without joining a group.

  --from earliest|latest|OFFSET   default: earliest, or the committed offsets of --group
  --max N                  stop after N records
  --follow                 wait for new records at the end, until Ctrl-C or --for
  --for SECONDS            with --follow: stop after this time
  --isolation read_committed|read_uncommitted   (default read_committed: no records of open and aborted transactions)
  --show-markers           print the markers at the ends of transactions, too
  --verbose                print partition, offset, timestamp, key, value and headers of each record
  --json                   print each record as a JSON document on a line
  --group ID               start at the committed offsets of this group, and commit those of the printed records at the
                           end; the group must have no members
  --bootstrap HOST:PORT    default localhost:9092; more than one with commas
  --command-config FILE    security of the connection: properties as for Kafka's clients
  --timeout SECONDS        time-out of each request with its retries (default 60)

Exit status: 0 success, 1 failure with a message, 2 invalid command line.

Examples:
  stuntbroker consume payments --isolation read_uncommitted --show-markers --verbose
  stuntbroker consume orders --follow --from latest
"""
OPTIONS: Final = ("--from", "--max", "--for", "--isolation", "--group", "--bootstrap", "--command-config", "--timeout")
FLAGS: Final = ("--follow", "--show-markers", "--verbose", "--json")
ISOLATION: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
WAIT_MS: Final = 500


def consume(arguments: list[str]) -> int:
    """Print records; return the exit status. Raises UsageError."""
    given = options(arguments, OPTIONS, FLAGS, has_positionals=True)
    topics = [topic_and_partition(text) for text in given.get("", ())]
    if not topics:
        raise UsageError("consume needs TOPIC")
    isolation = ISOLATION[choice(given, "--isolation", *ISOLATION)]
    start = single(given, "--from", "")
    if start not in ("", "earliest", "latest") and not (start.isascii() and start.isdigit() and len(start) < 19):
        raise UsageError(f"--from {start!r}: it must be earliest, latest or a whole number")
    if "--for" in given and "--follow" not in given:
        raise UsageError("--for needs --follow")
    printer = _Printer(given, optional_number(given, "--max", 1, INT64_MAX))
    group_id = non_empty_value(given, "--group")
    for_s = seconds(given, "--for", 0) if "--for" in given else float("inf")
    until_s = time.monotonic() + for_s if "--follow" in given else None
    addresses = bootstrap(given)
    secured_by = security(given)
    timeout_s = seconds(given, "--timeout", COMMAND_TIMEOUT_S)
    try:
        with noting_sigterm() as ended, Cluster(addresses, timeout_s, security=secured_by) as cluster:
            positions = _positions(cluster, places_of(cluster, topics), start, group_id)
            reset = partial(_reset, cluster, start) if until_s is not None else None
            tail = Tail(cluster, positions, isolation, reset)
            try:
                _print(cluster, tail, printer, isolation, until_s, ended)
            finally:
                sys.stdout.flush()
                if group_id:
                    commit_offsets(cluster, group_id, positions | printer.next_offsets)
    except ClientError as fault:
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}\n")
        return 1
    return ended.status


def _positions(cluster: Cluster, places: list[TopicPartition], start: str, group_id: str) -> dict[TopicPartition, int]:
    committed = committed_offsets(cluster, group_id, require_stable=True) if group_id and not start else {}
    positions = {}
    for place in places:
        if place in committed:
            positions[place] = committed[place].offset
        elif start.isdigit():
            first, end = _range(cluster, place)
            positions[place] = min(max(first, int(start)), end)
            if positions[place] != int(start):
                _note(place, first, end, f"reading begins at {positions[place]}")
        else:
            positions[place] = list_offset(cluster, *place, LATEST if start == "latest" else EARLIEST, READ_UNCOMMITTED)
    return positions


def _range(cluster: Cluster, place: TopicPartition) -> tuple[int, int]:
    """Return the first offset of a partition, and the one after its last."""
    first, end = (list_offset(cluster, *place, at, READ_UNCOMMITTED) for at in (EARLIEST, LATEST))
    return first, end


def _reset(cluster: Cluster, start: str, place: TopicPartition, offset: int) -> int:
    """Return where to read on in a partition that no longer has an offset, for instance because its topic is another one."""
    first, end = _range(cluster, place)
    position = end if start == "latest" else first
    _note(place, first, end, f"after offset {offset}, reading goes on at {position}")
    return position


def _note(place: TopicPartition, first: int, end: int, what: str) -> None:
    sys.stderr.write(f"stuntbroker: {place[0]}-{place[1]} has the offsets {first} to {end}: {what}\n")


def _print(
    cluster: Cluster, tail: Tail, printer: _Printer, isolation: int, until_s: float | None, ended: Ended
) -> None:
    """Print records until the end of the partitions, the maximum number, the time `until_s`, or a signal."""
    ends = (
        {}
        if until_s is not None
        else {place: list_offset(cluster, *place, LATEST, isolation) for place in tail.positions}
    )
    while not printer.is_done and not ended:
        if until_s is None:
            for place in [place for place, at in tail.positions.items() if at >= ends[place]]:
                del tail.positions[place]
            if not tail.positions:
                return
        elif time.monotonic() >= until_s:
            return
        wait_ms = WAIT_MS if until_s is None else max(1, int(min(WAIT_MS, (until_s - time.monotonic()) * 1000)))
        polled = tail.poll(wait_ms)
        if not polled and until_s is None:
            return  # Compaction may have left nothing before the end.
        for topic, partition, batch in polled:
            printer.print(topic, partition, batch, ends.get((topic, partition)))
        sys.stdout.flush()


class _Printer:
    """Writes at most `records_max` records to standard output. `next_offsets`: partition -> offset after the last one written."""

    def __init__(self, given: Options, records_max: int | None) -> None:
        self.next_offsets: dict[TopicPartition, int] = {}
        self._left = records_max
        self._json = "--json" in given
        self._verbose = "--verbose" in given
        self._markers = "--show-markers" in given

    @property
    def is_done(self) -> bool:
        """Whether the maximum number of records was written."""
        return self._left == 0

    def print(self, topic: str, partition: int, batch: Batch, end: int | None) -> None:
        """Write the records of a batch that are below offset `end`, or its marker."""
        for row in batch.rows:
            if self.is_done or (end is not None and row.offset >= end):
                return
            self._write(self._record(topic, partition, row, batch))
            self.next_offsets[topic, partition] = row.offset + 1
            if self._left is not None:
                self._left -= 1
        if self.is_done:
            return
        self.next_offsets[topic, partition] = batch.header.next_offset
        if batch.marker is not None and self._markers:
            self._write(self._marker(topic, partition, batch.marker))

    @staticmethod
    def _write(line: str) -> None:
        sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")

    def _record(self, topic: str, partition: int, row: Row, batch: Batch) -> str:
        if self._json:
            return json.dumps(record_document(topic, partition, row, batch))
        if not self._verbose:  # Byte by byte, as it was written.
            return "(null)" if row.value is None else row.value.decode("utf-8", "surrogateescape")
        headers = " ".join(f"{name}={_escaped(header)}" for name, header in row.headers)
        words = [
            f"{topic}-{partition}@{row.offset}",
            instant(row.timestamp_ms),
            shown(_escaped(row.key)),
            shown(_escaped(row.value)),
            shown(headers),
        ]
        if batch.header.producer_id >= 0:
            kind = "transaction of producer" if batch.header.transactional else "producer"
            words.append(f"{kind} {batch.header.producer_id}:{batch.header.producer_epoch}")
        return "  ".join(word for word in words if word != '""')

    def _marker(self, topic: str, partition: int, marker: Marker) -> str:
        if self._json:
            return json.dumps({"topic": topic, "partition": partition, "marker": marker._asdict()})
        end = "commit" if marker.is_commit else "abort"
        who = f"producer {marker.producer_id}:{marker.producer_epoch}"
        return f"{topic}-{partition}@{marker.offset}  {instant(marker.timestamp_ms)}  {end} of {who}"


def record_document(topic: str, partition: int, row: Row, batch: Batch) -> dict[str, Any]:
    """Return a record as a JSON document. Bytes that are not UTF-8 become `{"base64": ...}`, as `produce --from-json` reads."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms,
        "key": _json_value(row.key),
        "value": _json_value(row.value),
        "headers": [[name, _json_value(value)] for name, value in row.headers],
        "producer_id": batch.header.producer_id,
        "producer_epoch": batch.header.producer_epoch,
        "transactional": batch.header.transactional,
    }


def _json_value(data: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data or b"").decode()}


def _escaped(data: bytes | None) -> str:
    """Return bytes as text for people."""
    return "(null)" if data is None else data.decode("utf-8", "backslashreplace")
