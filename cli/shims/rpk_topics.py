"""`rpk topic` and `rpk group`: topics, records that are written to them, and consumer groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final

from stuntbroker.cli.shims.arguments import INT, PARTITION_COUNT, SHORT, CommandError, Parser, pattern
from stuntbroker.cli.tables import table
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.configs import ResourceType, Source, alter_config, describe_config
from stuntbroker.client.errors import BrokerError, NotFound
from stuntbroker.client.groups import delete_group, list_groups
from stuntbroker.client.producing import NewRecord, produce
from stuntbroker.client.reader import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offset
from stuntbroker.client.topics import TopicDescription, create_topic, delete_topic, describe_topics, grow_topic
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import INTERNAL

AddOptions = Callable[[Parser], None]
RunCommand = Callable[[Cluster, argparse.Namespace], int]


def _create_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--partitions", "-p", type=INT, default=1)
    parser.add_argument("--replicas", "-r", type=SHORT, default=-1)
    parser.add_argument("--topic-config", "-c", action="append", default=[])
    parser.add_flags("--if-not-exists")


def _create(cluster: Cluster, options: argparse.Namespace) -> int:
    configs = dict(text.partition("=")[::2] for text in options.topic_config)
    status, rows = 0, []
    for topic in options.topics:
        try:
            replicas = options.replicas if options.replicas > 0 else -1
            is_new = create_topic(
                cluster, topic, options.partitions, configs, replicas, if_not_exists=options.if_not_exists
            )
            rows.append((topic, "OK" if is_new else "EXISTS"))
        except BrokerError as fault:
            status = 1
            exists = fault.code == ErrorCode.TOPIC_ALREADY_EXISTS
            rows.append((topic, "TOPIC_ALREADY_EXISTS" if exists else str(fault)))
    sys.stdout.write(table(("TOPIC", "STATUS"), rows))
    return status


def _list_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="*")
    parser.add_argument("--regex", "-r", action="store_true")
    parser.add_argument("--internal", "-i", action="store_true")


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.regex and options.internal:
        raise CommandError("cannot list with internal topics and list by regular expression")
    topics = [
        each
        for each in describe_topics(cluster)
        if (options.internal or not each.is_internal) and (not options.topics or _is_meant(each.name, options))
    ]
    rows = [(each.name, len(each.partitions), len(each.partitions[0].replicas)) for each in topics]
    sys.stdout.write(table(("NAME", "PARTITIONS", "REPLICAS"), rows))
    return 0


def _is_meant(name: str, options: argparse.Namespace) -> bool:
    """Whether a topic is one of those of the command line, which are names, or with --regex expressions."""
    if options.regex:
        return any(pattern(each).fullmatch(name) for each in options.topics)
    return name in options.topics


def _describe_options(parser: Parser) -> None:
    parser.add_argument("topic")
    for section in ("summary", "configs", "partitions", "all"):
        parser.add_argument(f"--print-{section}", f"-{section[0]}", dest=section, action="store_true")


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    (topic,) = describe_topics(cluster, [options.topic])
    is_default = not (options.summary or options.configs or options.partitions)
    sections = {}
    if options.all or options.summary or is_default:
        sections["SUMMARY"] = (
            f"NAME        {topic.name}\nPARTITIONS  {len(topic.partitions)}\nREPLICAS    {len(topic.partitions[0].replicas)}\n"
        )
    if options.all or options.configs or is_default:
        entries = describe_config(cluster, ResourceType.TOPIC, topic.name)
        rows = [(each.name, each.value or "", Source(each.source).name) for each in entries]
        sections["CONFIGS"] = table(("KEY", "VALUE", "SOURCE"), rows)
    if options.all or options.partitions:
        sections["PARTITIONS"] = _partitions(cluster, topic)
    for title, text in sections.items():
        sys.stdout.write(f"{title}\n{'=' * len(title)}\n{text}\n" if len(sections) > 1 else text)
    return 0


def _partitions(cluster: Cluster, topic: TopicDescription) -> str:
    headers = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "LOG-START-OFFSET", "LAST-STABLE-OFFSET", "HIGH-WATERMARK"]
    rows: list[list[object]] = []
    for each in topic.partitions:
        start, stable, end = (
            list_offset(cluster, topic.name, each.partition, at, isolation)
            for at, isolation in ((EARLIEST, READ_UNCOMMITTED), (LATEST, READ_COMMITTED), (LATEST, READ_UNCOMMITTED))
        )
        replicas = f"[{' '.join(map(str, sorted(each.replicas)))}]"
        rows.append([each.partition, each.leader, each.leader_epoch, replicas, start, stable, end])
    at = headers.index("LAST-STABLE-OFFSET")
    if all(row[at] == row[at + 1] for row in rows):  # rpk has the column only where it says something.
        del headers[at]
        for row in rows:
            del row[at]
    return table(headers, rows)


def _delete_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+")


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    return _for_each("TOPIC", options.topics, lambda topic: delete_topic(cluster, topic))


def _add_partitions_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--num", "-n", type=PARTITION_COUNT, required=True)
    parser.add_argument("--force", "-f", action="store_true")


def _add_partitions(cluster: Cluster, options: argparse.Namespace) -> int:
    internal = [topic for topic in options.topics if topic in INTERNAL]
    if internal and not options.force:
        raise CommandError(f"Unable to change {internal[0]} without the --force flag.")

    def add(topic: str) -> None:
        (described,) = describe_topics(cluster, [topic])
        grow_topic(cluster, topic, len(described.partitions) + options.num)

    return _for_each("TOPIC", options.topics, add)


def _alter_config_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--set", "-s", action="append", default=[], type=_key_value)
    parser.add_argument("--delete", "-d", action="append", default=[])


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _alter_config(cluster: Cluster, options: argparse.Namespace) -> int:
    if not options.set and not options.delete:
        raise CommandError("No incremental configuration changes were requested!")
    values = dict(options.set)
    return _for_each(
        "TOPIC", options.topics, lambda topic: alter_config(cluster, ResourceType.TOPIC, topic, values, options.delete)
    )


def _for_each(what: str, names: list[str], operation: Callable[[str], None]) -> int:
    """Do the same with each, and print what became of it. The exit status is 1 if one failed."""
    rows = []
    for name in names:
        try:
            operation(name)
            rows.append((name, "OK"))
        except NotFound:
            rows.append((name, "GROUP_ID_NOT_FOUND" if what == "GROUP" else "UNKNOWN_TOPIC_OR_PARTITION"))
        except BrokerError as fault:
            rows.append((name, fault.message or str(fault)))
    sys.stdout.write(table((what, "STATUS"), rows))
    return int(any(status != "OK" for _, status in rows))


# --- group


def _no_more_options(parser: Parser) -> None:
    pass


def _list_groups(cluster: Cluster, options: argparse.Namespace) -> int:
    rows = [(cluster.group_coordinator(each.group_id), each.group_id) for each in list_groups(cluster)]
    sys.stdout.write(table(("BROKER", "GROUP"), rows))
    return 0


def _delete_group_options(parser: Parser) -> None:
    parser.add_argument("groups", nargs="+")


def _delete_groups(cluster: Cluster, options: argparse.Namespace) -> int:
    return _for_each("GROUP", options.groups, lambda group: delete_group(cluster, group))


# --- records


def _produce_options(parser: Parser) -> None:
    parser.add_argument("topic")
    parser.add_argument("--key", "-k")
    parser.add_argument("--partition", "-p", type=INT)


def _produce(cluster: Cluster, options: argparse.Namespace) -> int:
    key = None if options.key is None else options.key.encode()
    partition = options.partition if options.partition is not None and options.partition >= 0 else None
    for line in sys.stdin.buffer:
        (appended,) = produce(cluster, options.topic, [NewRecord(key, line.rstrip(b"\r\n"), (), partition)])
        sys.stdout.write(f"Produced to partition {appended.partition} at offset {appended.first_offset}.\n")
        sys.stdout.flush()
    return 0


COMMANDS: Final[dict[str, tuple[AddOptions, RunCommand]]] = {
    "topic create": (_create_options, _create),
    "topic list": (_list_options, _list),
    "topic describe": (_describe_options, _describe),
    "topic delete": (_delete_options, _delete),
    "topic produce": (_produce_options, _produce),
    "topic add-partitions": (_add_partitions_options, _add_partitions),
    "topic alter-config": (_alter_config_options, _alter_config),
    "group list": (_no_more_options, _list_groups),
    "group delete": (_delete_group_options, _delete_groups),
}
"""Words behind `rpk` -> what adds their options, and what runs them."""
