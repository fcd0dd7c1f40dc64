"""`stuntbroker group`: consumer groups of any Kafka, their members and their offsets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stuntbroker.cli.arguments import UsageError, single
from stuntbroker.cli.commands.verbs import COMMON_USAGE, Operation, Options, Shown, Verb, run_verb, states
from stuntbroker.cli.tables import shown, table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.groups import (
    STATES,
    GroupDescription,
    Member,
    commit_offsets,
    committed_offsets,
    delete_group,
    describe_group,
    list_groups,
)
from stuntbroker.client.errors import NotFound
from stuntbroker.protocol.primitives import INT64_MAX
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

USAGE: Final = (
    """\
usage: stuntbroker group COMMAND [options]

  list               list the groups with their states
                     --state STATE                 Empty, PreparingRebalance, CompletingRebalance, Stable or Dead; may
                                                   be repeated

  describe ID        show members, committed offsets and lag. STABLE is the last stable offset, up to which consumers
                     with read_committed can read

  reset ID           commit other offsets for a group without members
                     --topic T[:PARTITION]         only for this topic or partition; may be repeated (default: for all
                                                   committed offsets of the group)
                     --to earliest|latest|OFFSET   the new offset
                     --to-timestamp-ms N           or the offset of the first record with this timestamp or a later one
                     --dry-run                     only show the new offsets

  delete ID...       delete groups without members, with their offsets

  The commands work with any Kafka, and have these options:
"""
    + COMMON_USAGE
    + """\

Examples:
  stuntbroker group describe billing
  stuntbroker group reset billing --topic orders --to earliest
"""
)


class OffsetRow(NamedTuple):
    """A group's offsets in one partition. None: unknown, or nothing committed."""

    topic: str
    partition: int
    committed: int | None
    stable: int
    """The last stable offset."""
    end: int
    """The high watermark."""
    lag: int | None
    member: Member | None
    leader_epoch: int | None = None
    """Leader epoch that was committed with the offset; None if there was none."""


def group(arguments: list[str]) -> int:
    """Run one of the commands for groups; return the exit status."""
    return run_verb("group", VERBS, arguments)


def _list(given: Options) -> Operation:
    wanted = states(given, STATES)

    def operation(cluster: Cluster) -> Shown:
        groups = list_groups(cluster, wanted)
        rows = [(each.group_id, each.state or "-", each.protocol_type or "-") for each in groups]
        return Shown(table(("GROUP", "STATE", "PROTOCOL"), rows), {"groups": [each._asdict() for each in groups]})

    return operation


def _describe(given: Options) -> Operation:
    (group_id,) = given[""]

    def operation(cluster: Cluster) -> Shown:
        described = describe_group(cluster, group_id)
        rows = offset_rows(cluster, described)
        return Shown(_described(described, rows), _document(described, rows))

    return operation


def offset_rows(cluster: Cluster, described: GroupDescription) -> list[OffsetRow]:
    """Return a row for each partition that has a committed offset or an assigned member, in order."""
    owners = {partition: member for member in described.members for partition in member.partitions}
    committed = committed_offsets(cluster, described.group_id)
    rows = []
    for topic, partition in sorted(owners.keys() | committed.keys()):
        try:
            stable = list_offset(cluster, topic, partition, LATEST, READ_COMMITTED)
            end = list_offset(cluster, topic, partition, LATEST, READ_UNCOMMITTED)
        except NotFound:  # The topic was deleted, and its offsets have not expired.
            stable = end = -1
        at = committed.get((topic, partition))
        offset = None if at is None else at.offset
        lag = None if offset is None or end < 0 else max(0, end - offset)
        epoch = None if at is None or at.leader_epoch < 0 else at.leader_epoch
        rows.append(OffsetRow(topic, partition, offset, stable, end, lag, owners.get((topic, partition)), epoch))
    return rows


def _described(described: GroupDescription, rows: list[OffsetRow]) -> str:
    cells = [
        (
            row.topic,
            row.partition,
            _or_dash(row.committed),
            _or_dash(None if row.stable < 0 else row.stable),
            _or_dash(None if row.end < 0 else row.end),
            _or_dash(row.lag),
            "-" if row.member is None else row.member.instance_id or row.member.member_id,
            "-" if row.member is None else row.member.client_host,
        )
        for row in rows
    ]
    idle = [member for member in described.members if not member.partitions]
    text = f"group {shown(described.group_id)}, {described.state}, {len(described.members)} members\n"
    text += table(("TOPIC", "PARTITION", "COMMITTED", "STABLE", "END", "LAG", "MEMBER", "HOST"), cells)
    if idle:
        names = ", ".join(member.instance_id or member.member_id for member in idle)
        text += f"members without a partition: {shown(names)}\n"
    return text


def _document(described: GroupDescription, rows: list[OffsetRow]) -> dict[str, Any]:
    offsets = [{**row._asdict(), "member": None if row.member is None else row.member.member_id} for row in rows]
    members = [
        {
            **member._asdict(),
            "partitions": [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
        }
        for member in described.members
    ]
    return {**described._asdict(), "members": members, "offsets": offsets}


def _reset(given: Options) -> Operation:
    (group_id,) = given[""]
    at = single(given, "--to", "")
    timestamp = single(given, "--to-timestamp-ms", "")
    if bool(at) == bool(timestamp):
        raise UsageError("group reset needs --to earliest|latest|OFFSET, or --to-timestamp-ms N")
    if at not in ("", "earliest", "latest"):
        at = str(_checked_number("--to", at))
    timestamp_ms = _checked_number("--to-timestamp-ms", timestamp) if timestamp else None
    topics = [topic_and_partition(text, "--topic ") for text in given.get("--topic", ())]

    def operation(cluster: Cluster) -> Shown:
        before = {place: each.offset for place, each in committed_offsets(cluster, group_id).items()}
        places = places_of(cluster, topics) if topics else list(before)
        if not places:
            raise NotFound(f"group {group_id!r} has no committed offsets: give --topic")
        offsets = {place: target_offset(cluster, place, at, timestamp_ms) for place in places}
        if "--dry-run" not in given:
            commit_offsets(cluster, group_id, offsets)
        rows = [(*place, _or_dash(before.get(place)), offset) for place, offset in offsets.items()]
        if at.isdigit() and (
            other := [f"{topic}-{index}" for (topic, index), got in offsets.items() if got != int(at)]
        ):
            sys.stderr.write(
                f"stuntbroker: offset {at} is not in the log of {', '.join(other)}: the nearest offset is used\n"
            )
        return Shown(
            table(("TOPIC", "PARTITION", "BEFORE", "COMMITTED"), rows),
            {"group_id": group_id, "dry_run": "--dry-run" in given, "offsets": _offset_documents(before, offsets)},
        )

    return operation


def _offset_documents(
    before: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": partition, "before": before.get((topic, partition)), "committed": offset}
        for (topic, partition), offset in offsets.items()
    ]


def places_of(cluster: Cluster, topics: list[tuple[str, int | None]]) -> list[TopicPartition]:
    """Return the partitions that are given as (topic, partition or None for all). Raises NotFound."""
    places = []
    for topic, partition in topics:
        partitions = cluster.retrying(lambda: cluster.partitions([topic]))  # noqa: B023
        known = [each.partition for each in partitions]
        if partition is not None and partition not in known:
            raise NotFound(f"topic {topic!r} has no partition {partition}, it has {len(known)}")
        places += [(topic, each) for each in known if partition in (None, each)]
    return sorted(set(places))


def target_offset(cluster: Cluster, place: TopicPartition, at: str, timestamp_ms: int | None) -> int:
    """Return the offset to reset to: `at` is earliest, latest or a number, limited to the log; else that of `timestamp_ms`."""
    topic, partition = place
    earliest = list_offset(cluster, topic, partition, EARLIEST, READ_UNCOMMITTED)
    latest = list_offset(cluster, topic, partition, LATEST, READ_UNCOMMITTED)
    if timestamp_ms is not None:
        offset = list_offset(cluster, topic, partition, timestamp_ms, READ_UNCOMMITTED)
        return latest if offset < 0 else offset
    match at:
        case "earliest":
            return earliest
        case "latest":
            return latest
    return min(max(int(at), earliest), latest)


def _delete(given: Options) -> Operation:
    def operation(cluster: Cluster) -> Shown:
        deleted, missing = [], []
        for group_id in given[""]:
            try:
                delete_group(cluster, group_id)
                deleted.append(group_id)
            except NotFound:
                missing.append(group_id)
        failure = f"there is no group {', '.join(map(repr, missing))}" if missing else ""
        text = "".join(f"deleted group {shown(each)}\n" for each in deleted)
        return Shown(text, {"deleted": deleted, "not_found": missing}, failure, is_data=False)

    return operation


def topic_and_partition(text: str, option: str = "") -> tuple[str, int | None]:
    """Parse `TOPIC` or `TOPIC:PARTITION`, the value of `option`, to (topic, partition or None for all). Raises UsageError."""
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdigit() and len(partition) < 10)):
        raise UsageError(f"{option}{text!r}: it must be TOPIC or TOPIC:PARTITION")
    return topic, int(partition) if colon else None


def _checked_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > INT64_MAX:
        what = "earliest, latest or a whole number" if name == "--to" else "a whole number of milliseconds since 1970"
        raise UsageError(f"{name} {text!r}: it must be {what}")
    return int(text)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


VERBS: Final = {
    "list": Verb(_list, ("--state",)),
    "describe": Verb(_describe, words="ID"),
    "reset": Verb(_reset, ("--topic", "--to", "--to-timestamp-ms"), ("--dry-run",), "ID"),
    "delete": Verb(_delete, words="ID..."),
}
