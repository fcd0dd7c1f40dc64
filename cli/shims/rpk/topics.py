"""`rpk topic`, except for reading and writing records: lists, describes and changes topics."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from stuntbroker.cli.commands.config import source_name
from stuntbroker.cli.shims.arguments import INT, PARTITION_COUNT, SHORT, CommandError, Parser
from stuntbroker.cli.shims.rpk.commands import (
    NONE,
    PARTITIONS_HELP,
    REGEX_HELP,
    Command,
    for_each,
    is_matched,
    partition_numbers,
    sections_text,
)
from stuntbroker.cli.shims.rpk.offsets import parse_bound
from stuntbroker.cli.tables import table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import alter_config, describe_config
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.topics import (
    TopicDescription,
    create_topic,
    delete_records,
    delete_topic,
    describe_topics,
    grow_topic,
)
from stuntbroker.client.errors import BrokerError, NotFound
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import INTERNAL


def _create_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", help="names of the new topics")
    parser.add_argument(
        "--partitions",
        "-p",
        type=INT,
        default=1,
        metavar="N",
        help="number of partitions (default: 1; -1: the broker's)",
    )
    parser.add_argument(
        "--replicas", "-r", type=SHORT, default=-1, metavar="N", help="number of replicas (default: the broker's)"
    )
    parser.add_argument(
        "--topic-config",
        "-c",
        action="append",
        default=[],
        type=_key_value,
        metavar="KEY=VALUE",
        help="a property; may be repeated",
    )
    parser.add_flags({"--if-not-exists": "succeed if a topic exists"})


def _create(cluster: Cluster, options: argparse.Namespace) -> int:
    configs = dict(options.topic_config)
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
    parser.add_argument("topics", nargs="*", help="topics to list (default: all)")
    parser.add_argument("--regex", "-r", action="store_true", help=REGEX_HELP)
    parser.add_argument("--internal", "-i", action="store_true", help="list internal topics, too")
    parser.add_argument("--detailed", "-d", action="store_true", help="list the partitions, too")
    parser.add_argument(
        "--format", choices=("text", "wide", "json"), default="text", help="how to print (default: text)"
    )


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.regex and options.internal:
        raise CommandError("cannot list with internal topics and list by regular expression")
    if options.detailed and options.format == "json":
        raise CommandError("--detailed is not available with --format json here: use stuntbroker topic describe --json")
    topics = [
        each
        for each in describe_topics(cluster)
        if (options.internal or not each.is_internal) and (not options.topics or _is_meant(each.name, options))
    ]
    if options.format == "json":
        documents = [
            {"name": each.name, "partitions": len(each.partitions), "replicas": len(each.partitions[0].replicas)}
            for each in topics
        ]
        sys.stdout.write(json.dumps(documents, separators=(",", ":")) + "\n")
        return 0
    sys.stdout.write(topics_text(topics, is_detailed=options.detailed))
    return 0


def topics_text(topics: Sequence[TopicDescription], *, is_detailed: bool) -> str:
    """Return a table of topics or, with details, of the partitions of each."""
    if is_detailed:
        return "\n".join(map(_details, topics))
    rows = [(each.name, len(each.partitions), len(each.partitions[0].replicas)) for each in topics]
    return table(("NAME", "PARTITIONS", "REPLICAS"), rows)


def _details(topic: TopicDescription) -> str:
    counts = f"{len(topic.partitions)} partitions, {len(topic.partitions[0].replicas)} replicas"
    rows = [(each.partition, each.leader, each.leader_epoch, _brokers(each.replicas)) for each in topic.partitions]
    lines = table(("PARTITION", "LEADER", "EPOCH", "REPLICAS"), rows).splitlines(keepends=True)
    kind = " (internal)" if topic.is_internal else ""
    return f"{topic.name}{kind}, {counts}\n{''.join(f'      {line}' for line in lines)}"


def _brokers(node_ids: Sequence[int]) -> str:
    return f"[{' '.join(map(str, sorted(node_ids)))}]"


def _is_meant(name: str, options: argparse.Namespace) -> bool:
    """Return whether the command line selects a topic, by its name or, with --regex, by an expression."""
    return is_matched(name, options.topics) if options.regex else name in options.topics


def _describe_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", help="topics to describe")
    parser.add_argument("--regex", "-r", action="store_true", help=REGEX_HELP)
    for section in ("summary", "configs", "partitions", "all"):
        what = "everything" if section == "all" else f"the {section}"
        parser.add_argument(
            f"--print-{section}", f"-{section[0]}", dest=section, action="store_true", help=f"print {what}"
        )


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    topics = describe_topics(cluster, None if options.regex else options.topics)
    texts = [_description(cluster, topic, options) for topic in topics if _is_meant(topic.name, options)]
    sys.stdout.write("\n".join(texts))
    return 0


def _description(cluster: Cluster, topic: TopicDescription, options: argparse.Namespace) -> str:
    is_default = not (options.summary or options.configs or options.partitions)
    sections = {}
    if options.all or options.summary or is_default:
        sections["SUMMARY"] = (
            f"NAME        {topic.name}\nPARTITIONS  {len(topic.partitions)}\nREPLICAS    {len(topic.partitions[0].replicas)}\n"
        )
    if options.all or options.configs or is_default:
        entries = describe_config(cluster, ResourceType.TOPIC, topic.name)
        rows = [(each.name, each.value or "", source_name(each.source)) for each in entries]
        sections["CONFIGS"] = table(("KEY", "VALUE", "SOURCE"), rows)
    if options.all or options.partitions:
        sections["PARTITIONS"] = _partitions(cluster, topic)
    return sections_text(sections)


def _partitions(cluster: Cluster, topic: TopicDescription) -> str:
    headers = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "LOG-START-OFFSET", "LAST-STABLE-OFFSET", "HIGH-WATERMARK"]
    rows: list[list[object]] = []
    for each in topic.partitions:
        start, stable, end = (
            list_offset(cluster, topic.name, each.partition, at, isolation)
            for at, isolation in ((EARLIEST, READ_UNCOMMITTED), (LATEST, READ_COMMITTED), (LATEST, READ_UNCOMMITTED))
        )
        rows.append([each.partition, each.leader, each.leader_epoch, _brokers(each.replicas), start, stable, end])
    at = headers.index("LAST-STABLE-OFFSET")
    if all(row[at] == row[at + 1] for row in rows):  # rpk shows the column only if a value differs.
        del headers[at]
        for row in rows:
            del row[at]
    return table(headers, rows)


def _delete_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", help="topics to delete")
    parser.add_argument("--regex", "-r", action="store_true", help=REGEX_HELP)


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    topics = options.topics
    if options.regex:
        listed = [each.name for each in describe_topics(cluster) if not each.is_internal]
        topics = [name for name in listed if is_matched(name, options.topics)]
    return for_each("TOPIC", topics, lambda topic: delete_topic(cluster, topic))


def _add_partitions_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", help="topics to change")
    parser.add_argument(
        "--num", "-n", type=PARTITION_COUNT, required=True, metavar="N", help="number of partitions to add"
    )
    parser.add_argument("--force", "-f", action="store_true", help="change internal topics, too")


def _add_partitions(cluster: Cluster, options: argparse.Namespace) -> int:
    internal = [topic for topic in options.topics if topic in INTERNAL]
    if internal and not options.force:
        raise CommandError(f"Unable to change {internal[0]} without the --force flag.")

    def add(topic: str) -> None:
        (described,) = describe_topics(cluster, [topic])
        grow_topic(cluster, topic, len(described.partitions) + options.num)

    return for_each("TOPIC", options.topics, add)


def _alter_config_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", help="topics to change")
    parser.add_argument(
        "--set",
        "-s",
        action="append",
        default=[],
        type=_key_value,
        metavar="KEY=VALUE",
        help="a property to set; may be repeated",
    )
    parser.add_argument(
        "--delete",
        "-d",
        action="append",
        default=[],
        metavar="KEY",
        help="a property to set back to its default; may be repeated",
    )


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _alter_config(cluster: Cluster, options: argparse.Namespace) -> int:
    if not options.set and not options.delete:
        raise CommandError("No incremental configuration changes were requested!")
    values = dict(options.set)
    return for_each(
        "TOPIC", options.topics, lambda topic: alter_config(cluster, ResourceType.TOPIC, topic, values, options.delete)
    )


def _trim_options(parser: Parser) -> None:
    parser.add_argument("topic", help="topic whose first records are deleted")
    parser.add_argument("--offset", "-o", required=True, help="the first record to keep: an offset, end, or @TIMESTAMP")
    parser.add_argument(
        "--partitions", "-p", type=partition_numbers, action="extend", metavar="N,...", help=PARTITIONS_HELP
    )
    parser.add_flags({"--no-confirm": "no effect: nothing is asked"})


def _trim(cluster: Cluster, options: argparse.Namespace) -> int:
    """Delete the records of a topic before an offset, without asking for confirmation."""
    wanted = parse_bound(options.offset)
    (topic,) = describe_topics(cluster, [options.topic])
    rows, status = [], 0
    for partition in options.partitions or range(len(topic.partitions)):
        text, start = NONE, NONE
        try:
            start = str(delete_records(cluster, topic.name, partition, wanted(cluster, (topic.name, partition))))
        except (BrokerError, NotFound) as fault:
            status, text = 1, str(fault)
        rows.append((topic.name, partition, start, text))
    sys.stdout.write(table(("TOPIC", "PARTITION", "NEW-START-OFFSET", "ERROR"), rows))
    return status


COMMANDS: Final[dict[str, Command]] = {
    "topic create": Command(_create_options, _create),
    "topic list": Command(_list_options, _list),
    "topic describe": Command(_describe_options, _describe),
    "topic delete": Command(_delete_options, _delete),
    "topic add-partitions": Command(_add_partitions_options, _add_partitions),
    "topic alter-config": Command(_alter_config_options, _alter_config),
    "topic trim-prefix": Command(_trim_options, _trim),
}
"""Words after `rpk` -> command."""
