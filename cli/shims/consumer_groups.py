"""kafka-consumer-groups: list, describe, delete and reset consumer groups."""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections.abc import Iterable
from typing import Final

from stuntbroker.cli.commands.group import OffsetRow, offset_rows, places_of, target_offset
from stuntbroker.cli.shims.arguments import LONG, CommandError, Parser, UsageFault, columns, guarded, run_with_cluster
from stuntbroker.cli.shims.java_errors import TEXTS, exception_text
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.groups import (
    GroupDescription,
    commit_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from stuntbroker.client.errors import BrokerError, NotFound
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.request_values import LATEST, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

ACTIONS = {
    "list": "list groups",
    "describe": "show the offsets, members or state of groups",
    "delete": "delete groups without members",
    "reset_offsets": "set the offsets of groups without members; needs --topic or --all-topics, and one kind of new offsets",
    "delete_offsets": "delete the offsets of one group for --topic or --all-topics",
}
"""Action, as the option's name in Python -> what it does."""
OFFSETS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
KINDS = ("Consumer", "Classic")
STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Assigning", "Reconciling", "Dead")
INACTIVE: Final = ("Empty", "Dead", "")
"""States in which offsets can be reset; a broker older than Kafka 2.6 gives none, and refuses the commit itself."""
EXCLUSIVE: Final = {
    "describe": ("members", "offsets", "state"),
    "reset_offsets": (
        "to-offset",
        "to-datetime",
        "by-duration",
        "to-earliest",
        "to-latest",
        "shift-by",
        "from-file",
        "to-current",
    ),
}
"""Action -> options of which at most one may be given."""
NOT_OF: Final = {"group": ("list",), "topic": ("list", "describe")}
"""Option -> actions that do not take it."""
DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d+)?)S)?)?", re.ASCII)
NO_PARTITION: Final = -1
"""For a topic that does not exist."""
PARTITION, OFFSET = re.compile("[0-9]{1,9}"), re.compile("[0-9]{1,18}")


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded(
        "\nError: Executing consumer group command failed due to ",
        lambda: _run(command, arguments),
        failures_on_stdout=True,
        names_exceptions=True,
        failure_status=0,
    )


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options()
    parser.add_argument("--group", action="append", default=[], help="consumer group; may be repeated")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:N,...]",
        help="topic, or some of its partitions; may be repeated",
    )
    parser.add_argument(
        "--state",
        nargs="?",
        const="",
        metavar="STATE,...",
        help="with --list: show the states, or only groups in these; with --describe: show the state of the group",
    )
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPE,...", help="with --list: show the types, or only groups of these"
    )
    parser.add_argument("--timeout", type=LONG, metavar="MS", help="no effect")
    parser.add_argument("--to-offset", type=LONG, metavar="N", help="new offsets: N")
    parser.add_argument(
        "--shift-by", type=LONG, metavar="N", help="new offsets: N after the current ones; negative: before"
    )
    parser.add_argument(
        "--to-datetime", metavar="TIME", help="new offsets: of the first records since a time, YYYY-MM-DDTHH:mm:SS.sss"
    )
    parser.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="new offsets: of the first records since so long ago"
    )
    parser.add_argument("--from-file", metavar="FILE", help="new offsets: those in a file that --export printed")
    parser.add_argument("--validate-regex", metavar="REGEX", help="say whether a broker accepts this as a subscription")
    parser.add_flags({f"--{action.replace('_', '-')}": explanation for action, explanation in ACTIONS.items()})
    parser.add_flags(
        {
            "--all-groups": "all groups, instead of --group",
            "--all-topics": "all topics that the group has offsets of, instead of --topic",
            "--members": "with --describe: show the members of the group",
            "--offsets": "with --describe: show offsets and lag (the default)",
            "--verbose": "with --describe: show more, such as the assignment of each member",
            "--to-earliest": "new offsets: the start of each partition",
            "--to-latest": "new offsets: the end of each partition",
            "--to-current": "new offsets: the current ones",
            "--dry-run": "with --reset-offsets: only show the new offsets (the default)",
            "--execute": "with --reset-offsets: commit the new offsets",
            "--export": "with --reset-offsets: print the new offsets as CSV",
        }
    )
    options = parser.parse_args(arguments)
    actions = [action for action in ACTIONS if getattr(options, action)]
    if options.validate_regex is not None and not actions:
        return _validate(options.validate_regex)
    if len(actions) != 1:
        raise UsageFault(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets or --delete-offsets"
        )
    if actions[0] != "list" and not (options.group or options.all_groups):
        raise UsageFault("Option [group] or [all-groups] is needed")
    _check_scope(options, actions[0])
    _check_exclusive_options(options, actions[0])
    return run_with_cluster(options, lambda cluster: _ACTIONS[actions[0]](cluster, options))


def _check_scope(options: argparse.Namespace, action: str) -> None:
    """Raise UsageFault if groups and topics are given that the action does not take, or twice."""
    if action == "reset_offsets" and options.execute and options.dry_run:
        raise UsageFault("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if action == "delete" and options.topic:
        raise UsageFault("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.group and options.all_groups:
        raise UsageFault('Option "[group]" can\'t be used with option "[all-groups]"')
    if action == "delete_offsets" and not (options.group and options.topic):
        raise UsageFault("Option [delete-offsets] takes the following options: [topic], [group]")
    for name in ("group", "topic"):
        if getattr(options, name) and action in NOT_OF[name]:
            raise UsageFault(f'Option "[{name}]" can\'t be used with option "[{action}]"')


def _check_exclusive_options(options: argparse.Namespace, action: str) -> None:
    """Raise CommandError if two options of an action exclude each other."""
    exclusive = EXCLUSIVE.get(action, ())
    given = [name for name in exclusive if getattr(options, name.replace("-", "_")) not in (None, False)]
    if len(given) < 2:
        return
    if action == "describe":
        raise UsageFault(f"Option [describe] takes at most one of these options: {_in_brackets(exclusive)}")
    raise UsageFault(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')


def _in_brackets(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)


def _validate(text: str) -> int:
    # Unlike Kafka: Python's engine validates, not the broker's RE2; most expressions are valid in both.
    try:
        re.compile(text)
    except re.error as fault:
        sys.stdout.write(f"The regular expression `{text}` is invalid: {fault}.\n")
    else:
        sys.stdout.write(f"The regular expression `{text}` is valid.\n")
    return 0


def _groups(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    return [each.group_id for each in list_groups(cluster)] if options.all_groups else list(options.group)


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    kinds = _known(options.type, "types list", "types", KINDS)
    groups = list_groups(cluster, _known(options.state, "state list", "states", STATES))
    groups = [each for each in groups if not kinds or each.group_type.capitalize() in kinds]
    if options.state is None and options.type is None:
        sys.stdout.write("".join(f"{each.group_id}\n" for each in groups))
        return 0
    rows = [("GROUP", "TYPE", "STATE"), *((each.group_id, each.group_type.capitalize(), each.state) for each in groups)]
    width = max([15, *(len(each.group_id) for each in groups)]) + 10
    for group, kind, state in rows:
        cells = [f"{group:<{width}}"]
        cells += [f"{kind:<20}"] if options.type is not None else []
        cells += [f"{state:<20}"] if options.state is not None else []
        sys.stdout.write(" ".join(cells) + "\n")
    return 0


def _known(text: str | None, what: str, plural: str, known: tuple[str, ...]) -> list[str]:
    """Parse comma-separated names, with Kafka's spelling. Raises CommandError for an unknown name."""
    by_lower = {name.lower(): name for name in known}
    given = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if not set(given) <= set(by_lower):
        raise UsageFault(f"Invalid {what} '{text}'. Valid {plural} are: {', '.join(known)}")
    return [by_lower[each] for each in given]


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    for described in [_existing(cluster, group_id) for group_id in _groups(cluster, options)]:
        if options.state is not None:
            _describe_state(cluster, described, options.verbose)
        elif options.members:
            _describe_members(described, options.verbose)
        else:
            _describe_offsets(described, offset_rows(cluster, described), options.verbose)
        if not described.members:
            sys.stderr.write(f"\nConsumer group '{described.group_id}' has no active members.\n")
    return 0


def _existing(cluster: Cluster, group_id: str) -> GroupDescription:
    try:
        return describe_group(cluster, group_id)
    except NotFound as fault:
        text = exception_text(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        raise CommandError(text) from fault


def _describe_offsets(described: GroupDescription, rows: list[OffsetRow], is_verbose: bool) -> None:
    if not rows:
        return
    widths = (
        max(15, len(described.group_id)),
        max(15, *(len(row.topic) for row in rows)),
        10,
        *([15] if is_verbose else []),
        15,
        15,
        15,
        max(15, *(len(row.member.member_id) for row in rows if row.member), 0),
        max(15, *(len(row.member.client_host) for row in rows if row.member), 0),
    )
    epoch_at = OFFSETS.index("CURRENT-OFFSET")
    lines: list[tuple[object, ...]] = [
        (*OFFSETS[:epoch_at], "LEADER-EPOCH", *OFFSETS[epoch_at:]) if is_verbose else OFFSETS
    ]
    for row in rows:
        member = row.member
        who = ("-", "-", "-") if member is None else (member.member_id, member.client_host, member.client_id)
        numbers = (row.committed, row.end if row.end >= 0 else None, row.lag)
        epoch = ["-" if row.leader_epoch is None else row.leader_epoch] if is_verbose else []
        cells = [
            described.group_id,
            row.topic,
            row.partition,
            *epoch,
            *("-" if n is None else n for n in numbers),
            *who,
        ]
        lines.append(tuple(cells))
    sys.stdout.write("\n")
    for line in lines:
        padded = [f"{cell!s:<{width}}" for cell, width in zip(line, widths, strict=False)]
        sys.stdout.write(" ".join([*padded, str(line[-1])]) + "\n")


def _describe_members(described: GroupDescription, is_verbose: bool) -> None:
    width = max([15, *(len(each.member_id) for each in described.members)])
    # Epochs and target assignment belong to KIP-848; classic groups do not have them.
    more = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT") if is_verbose else ("",)
    lines: list[tuple[object, ...]] = [("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *more)]
    for each in described.members:
        by_topic: dict[str, list[str]] = {}
        for topic, partition in sorted(each.partitions):
            by_topic.setdefault(topic, []).append(str(partition))
        assigned = ";".join(f"{topic}:{','.join(partitions)}" for topic, partitions in by_topic.items())
        more = ("-", assigned or "-", "-", "-") if is_verbose else ("",)
        lines.append(
            (described.group_id, each.member_id, each.client_host, each.client_id, len(each.partitions), *more)
        )
    widths = (max(15, len(described.group_id)), width, 15, 15, 15, *([15, 20, 15, 20] if is_verbose else [0]))
    sys.stdout.write("\n" + columns(lines, widths))


def _describe_state(cluster: Cluster, described: GroupDescription, is_verbose: bool) -> None:
    broker = next((each for each in cluster.metadata([]).brokers if each.node_id == described.coordinator_id), None)
    coordinator = (
        f"{broker.host}:{broker.port}  ({described.coordinator_id})" if broker else str(described.coordinator_id)
    )
    width = max(15, len(described.group_id))
    epochs = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if is_verbose else ()
    head = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *epochs, "#MEMBERS")
    no_epochs = ["-"] * len(epochs)  # Epochs belong to KIP-848; classic groups do not have them.
    row = (
        described.group_id,
        coordinator,
        described.protocol or "-",
        described.state,
        *no_epochs,
        len(described.members),
    )
    widths = (width, 25, 20, 20, *([15, 25] if is_verbose else []), 0)
    sys.stdout.write("\n")
    for cells in (head, row):
        line = " ".join(f"{cell!s:<{size}}" for cell, size in zip(cells, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    failures = []
    deleted = []
    for group_id in _groups(cluster, options):
        try:
            delete_group(cluster, group_id)
            deleted.append(group_id)
        except (NotFound, BrokerError) as fault:
            code = fault.code if isinstance(fault, BrokerError) else ErrorCode.GROUP_ID_NOT_FOUND
            failures.append(f"* Group '{group_id}' could not be deleted due to: {exception_text(code)}\n")
    if failures:
        sys.stdout.write("\nError: Deletion of some consumer groups failed:\n" + "".join(failures))
    if deleted:
        names = ", ".join(f"'{each}'" for each in deleted)
        which = (
            "These consumer groups were deleted successfully: "
            if failures
            else "Deletion of requested consumer groups ("
        )
        sys.stdout.write(f"\n{which}{names}\n" if failures else f"{which}{names}) was successful.\n")
    return 0


def _places(cluster: Cluster, options: argparse.Namespace, group_id: str) -> list[TopicPartition]:
    if options.from_file:
        return list(_offsets_of_file(options.from_file, group_id))
    if options.all_topics:
        return list(committed_offsets(cluster, group_id))
    return places_of(cluster, _topics(options.topic))


def _topics(texts: list[str]) -> list[tuple[str, int | None]]:
    """Parse `TOPIC` or `TOPIC:PARTITION,PARTITION`; None is for every partition. Raises UsageFault."""
    if not texts:
        raise UsageFault("One of the reset scopes should be defined: --all-topics, --topic.")
    wanted: list[tuple[str, int | None]] = []
    for text in texts:
        topic, colon, partitions = text.partition(":")
        numbers = partitions.split(",")
        if colon and not all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers):
            raise UsageFault(f"Invalid topic arg '{text}', expected format: topic:partition[,partition...]")
        wanted += [(topic, int(each)) for each in numbers] if colon else [(topic, None)]
    return wanted


def _reset_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    if not options.execute and not options.dry_run:
        sys.stderr.write("WARN: without --execute nothing is changed, only shown\n")
    rows: list[tuple[str, str, int, int]] = []
    states = {each.group_id: each.state for each in list_groups(cluster)}
    for group_id in _groups(cluster, options):
        if states.get(group_id, "") not in INACTIVE:
            sys.stdout.write(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {states[group_id]}.\n"
            )
            continue
        offsets = {place: _target(cluster, place, options, group_id) for place in _places(cluster, options, group_id)}
        if options.execute:
            commit_offsets(cluster, group_id, offsets)
        rows += [(group_id, topic, partition, offset) for (topic, partition), offset in offsets.items()]
    if options.export:
        start = 0 if len(options.group) > 1 or options.all_groups else 1
        sys.stdout.write("".join(",".join(map(str, row[start:])) + "\n" for row in rows) + "\n")
        return 0
    width = max([15, *(len(group_id) for group_id, *_ in rows)])
    topic_width = max([15, *(len(topic) for _, topic, *_ in rows)])
    sys.stdout.write(f"\n{'GROUP':<{width}} {'TOPIC':<{topic_width}} {'PARTITION':<10} NEW-OFFSET\n")
    for group_id, topic, partition, offset in rows:
        sys.stdout.write(f"{group_id:<{width}} {topic:<{topic_width}} {partition:<10} {offset}\n")
    return 0


def _target(cluster: Cluster, place: TopicPartition, options: argparse.Namespace, group_id: str) -> int:
    if options.to_earliest:
        return target_offset(cluster, place, "earliest", None)
    if options.to_latest:
        return target_offset(cluster, place, "latest", None)
    if options.to_offset is not None:
        return target_offset(cluster, place, str(max(0, options.to_offset)), None)
    if options.to_datetime is not None:
        return _offset_at(cluster, place, _timestamp_ms(options.to_datetime))
    if options.by_duration is not None:
        return _offset_at(cluster, place, round(time.time() * 1_000) - _duration_ms(options.by_duration))
    if options.from_file is not None:
        offset = _offsets_of_file(options.from_file, group_id)[place]
        return target_offset(cluster, place, str(offset), None)
    committed = committed_offsets(cluster, group_id).get(place)
    if options.shift_by is not None:
        if committed is None:
            raise UsageFault(
                f"Cannot shift offset for partition {place[0]}-{place[1]} since there is no current committed offset"
            )
        return target_offset(cluster, place, str(max(0, committed.offset + options.shift_by)), None)
    if options.to_current:
        return committed.offset if committed else list_offset(cluster, *place, LATEST, READ_UNCOMMITTED)
    raise UsageFault(
        "Option [reset-offsets] needs one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
        "--by-duration and --from-file"
    )


def _offset_at(cluster: Cluster, place: TopicPartition, timestamp_ms: int) -> int:
    offset = list_offset(cluster, *place, timestamp_ms, READ_UNCOMMITTED)
    if offset < 0:
        topic, partition = place
        sys.stdout.write(
            f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.\n"
        )
        return target_offset(cluster, place, "latest", None)
    return offset


def _timestamp_ms(text: str) -> int:
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFault(f"Cannot parse '{text}' as an ISO 8601 time") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration such as P1DT2H30M or PT0.5S; return milliseconds. Raises CommandError."""
    matched = DURATION.fullmatch(text.upper())
    if matched is None or text[-1] in "TtPp":
        raise UsageFault(f"Cannot parse '{text}' as an ISO 8601 duration, such as P1D or PT1H30M")
    days, hours, minutes, seconds = (float(each or 0) for each in matched.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000)


def _offsets_of_file(path: str, group_id: str) -> dict[TopicPartition, int]:
    """Return the offsets of a group in a file that `--export` has written. Raises CommandError."""
    offsets: dict[TopicPartition, int] = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row:  # `--export` ends with an empty line.
                    continue
                if len(row) not in (3, 4) or not (PARTITION.fullmatch(row[-2]) and OFFSET.fullmatch(row[-1])):
                    raise UsageFault(f"--from-file {path}: line {number} is not [group,]topic,partition,offset")
                if len(row) == 3 or row[0] == group_id:
                    offsets[row[-3], int(row[-2])] = int(row[-1])
    except (OSError, ValueError) as fault:
        raise UsageFault(f"--from-file {path}: {getattr(fault, 'strerror', None) or fault}") from None
    return offsets


def _delete_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.all_groups or len(options.group or ()) != 1:
        raise UsageFault("Option [delete-offsets] needs one group: [group]")
    (group_id,) = options.group
    results: dict[TopicPartition, int] = {}
    places: list[TopicPartition] = list(committed_offsets(cluster, group_id)) if options.all_topics else []
    for topic, number in () if options.all_topics else _topics(options.topic):
        try:
            places += [(topic, number)] if number is not None else places_of(cluster, [(topic, None)])
        except NotFound:
            results[topic, NO_PARTITION] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    text = f"Request succeeded for deleting offsets from group {group_id}."
    try:
        results |= delete_offsets(cluster, group_id, places)
        if any(results[place] for place in places):
            text = "\nError: Encountered some partition-level error, see the follow-up details."
    except BrokerError as fault:
        results |= dict.fromkeys(places, fault.code)
        text = f"\nError: {fault.message or TEXTS.get(ErrorCode(fault.code), fault)}"
    rows: list[tuple[object, ...]] = [("TOPIC", "PARTITION", "STATUS")]
    for (topic, partition), code in sorted(results.items()):
        status = f"Error: {exception_text(code)}" if code else "Successful"
        rows.append((topic, "-" if partition == NO_PARTITION else partition, status))
    sys.stdout.write(text + "\n\n" + columns(rows, (max([15, *(len(topic) for topic, _ in results)]), 10, 15)))
    return 0


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset_offsets": _reset_offsets,
    "delete_offsets": _delete_offsets,
}
