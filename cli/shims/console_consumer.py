"""kafka-console-consumer: prints the values of records until it is interrupted."""

from __future__ import annotations

import argparse
import sys
import time

from stuntbroker.cli.commands.group import places_of
from stuntbroker.cli.shims.arguments import (
    INT,
    LONG,
    CommandError,
    Parser,
    client_properties,
    guarded,
    pattern,
    properties_of,
    run_with_cluster,
)
from stuntbroker.cli.shims.record_lines import (
    DEFAULT_FORMATTER,
    NONE_IN_TIME,
    WAIT_MS,
    Formatter,
    deadline_of,
    finish,
    formatter_of,
    write_line,
)
from stuntbroker.cli.signals import Ended, noting_sigterm
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.producing import partition_count
from stuntbroker.client.commands.reader import Tail
from stuntbroker.client.errors import NotFound
from stuntbroker.protocol.batches.records import LOG_APPEND_TIME
from stuntbroker.protocol.primitives import INT64_MAX
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.topic_names import TopicPartition

LOOK_S = 5.0
"""Seconds between two looks for topics that match `--include`."""
ISOLATION = ("read_committed", "read_uncommitted")


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded("", lambda: _run(command, arguments))


def _run(command: str, arguments: list[str]) -> int:
    options = _parser(command).parse_args(arguments)
    if (options.topic is None) == (options.include is None):
        raise CommandError("Exactly one of --include/--topic is required.")
    if options.max_messages is not None and options.max_messages < 0:
        options.max_messages = None  # No limit.
    consumer = options.command_config = (options.command_config or {}) | properties_of(options.consumer)
    group_ids = {each for each in (options.group, consumer.get("group.id")) if each is not None}
    if len(group_ids) > 1:
        raise CommandError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {', '.join(map(repr, sorted(group_ids)))}"
        )
    options.group = next(iter(group_ids), None)
    if options.group is not None and options.partition is not None:
        raise CommandError("Options group and partition cannot be specified together.")
    options.isolation_level = consumer.get("isolation.level", options.isolation_level)
    if options.isolation_level not in ISOLATION:
        raise CommandError(
            f"Invalid value {options.isolation_level} for configuration isolation.level: String must be one of: "
            f"{', '.join(ISOLATION)}"
        )
    reset = consumer.get("auto.offset.reset")
    if options.from_beginning and reset not in (None, "earliest"):
        raise CommandError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if options.from_beginning and options.offset is not None:
        raise CommandError("Options from-beginning and offset cannot be specified together.")
    options.from_beginning |= reset == "earliest"
    if options.partition is not None and options.topic is None:
        raise CommandError("The topic is required when partition is specified.")
    if options.offset not in (None, "earliest", "latest") and not _is_offset(options.offset):
        raise CommandError(
            f"The provided offset value '{options.offset}' is incorrect: earliest, latest or a whole number"
        )
    if options.offset is not None and options.partition is None:
        raise CommandError("The partition is required when offset is specified.")
    shown = options.formatter_config | properties_of(options.formatter_properties)
    for what in ("key", "value"):
        if deserializer := getattr(options, f"{what}_deserializer"):
            shown[f"{what}.deserializer"] = deserializer
    formatter = formatter_of(options.formatter, shown)
    if options.group:
        from stuntbroker.cli.shims.group_consumer import consume_as_member

        return run_with_cluster(options, lambda cluster: consume_as_member(cluster, options, consumer, formatter))
    return run_with_cluster(options, lambda cluster: _consume(cluster, options, formatter))


def _parser(command: str) -> Parser:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options()
    parser.add_argument("--topic", help="topic to read")
    parser.add_argument(
        "--include", "--whitelist", dest="include", metavar="REGEX", help="topics to read, instead of --topic"
    )
    parser.add_argument(
        "--partition", type=INT, help="partition to read; needs --topic, excludes --group (default: all)"
    )
    parser.add_argument("--offset", help="where to start in --partition: earliest, latest (the default) or an offset")
    parser.add_argument("--max-messages", type=LONG, metavar="N", help="stop after N records (default: do not stop)")
    parser.add_argument("--timeout-ms", type=LONG, metavar="MS", help="stop when no record has come for so long")
    parser.add_argument("--group", help="consumer group to join, which keeps the place (default: none)")
    parser.add_argument(
        "--isolation-level",
        default="read_uncommitted",
        metavar="LEVEL",
        help="read_committed: leave out records of open and aborted transactions (default: %(default)s)",
    )
    parser.add_argument(
        "--property",
        "--formatter-property",
        dest="formatter_properties",
        action="append",
        metavar="KEY=VALUE",
        help="what is printed: print.key, print.value, print.headers, print.offset, print.partition, print.timestamp=true; "
        "key.separator, line.separator=TEXT",
    )
    parser.add_argument(
        "--consumer-property",
        "--command-property",
        dest="consumer",
        action="append",
        metavar="KEY=VALUE",
        help="a property of the consumer, such as auto.offset.reset=earliest",
    )
    parser.add_argument(
        "--formatter", default=DEFAULT_FORMATTER, metavar="CLASS", help="Kafka's class that prints records"
    )
    parser.add_argument(
        "--formatter-config", type=client_properties, default={}, metavar="FILE", help="file of what --property takes"
    )
    for name in ("--key-deserializer", "--value-deserializer"):
        parser.add_argument(name, metavar="CLASS", help="Kafka's deserializer (default: that of strings)")
    parser.add_flags(
        {
            "--from-beginning": "start at the first record, unless the group has a place already",
            "--skip-message-on-error": "go on after a record that cannot be printed",
            "--enable-systest-events": "print shutdown_complete at the end",
            "--new-consumer": "no effect: an option of older versions",
        }
    )
    return parser


# Unlike Kafka: without --group, the consumer is not in a group, whereas Kafka's joins one with a generated name.
def _consume(cluster: Cluster, options: argparse.Namespace, formatter: Formatter) -> int:
    with noting_sigterm() as ended:
        _print(cluster, options, formatter, ended)
    return ended.status


def _print(cluster: Cluster, options: argparse.Namespace, formatter: Formatter, ended: Ended) -> None:
    isolation = READ_COMMITTED if options.isolation_level == "read_committed" else READ_UNCOMMITTED
    places = _places(cluster, options)
    records = 0

    def reset(place: TopicPartition, _: int) -> int:
        return _reset_position(cluster, place, options)

    tail = Tail(cluster, {each: _start(cluster, each, options) for each in places}, isolation, reset)
    deadline_s = deadline_of(options.timeout_ms)
    look_s = time.monotonic() + LOOK_S
    try:
        while not ended and (options.max_messages is None or records < options.max_messages):
            if time.monotonic() >= deadline_s:
                sys.stderr.write(NONE_IN_TIME)
                break
            if options.include is not None and time.monotonic() >= look_s:
                matching = _places(cluster, options)
                for place in tail.positions.keys() - set(matching):
                    del tail.positions[place]
                for place in set(matching) - tail.positions.keys():
                    tail.positions[place] = _start(cluster, place, options)
                look_s = time.monotonic() + LOOK_S
            wait_ms = max(1, int(min(WAIT_MS, (deadline_s - time.monotonic()) * 1000)))
            for _, partition, batch in tail.poll(wait_ms):
                for row in batch.rows:
                    if options.max_messages is not None and records >= options.max_messages:
                        break
                    records += 1
                    is_log_append = bool(batch.header.attributes & LOG_APPEND_TIME)
                    write_line(formatter, partition, row, is_log_append, skips_errors=options.skip_message_on_error)
                    deadline_s = deadline_of(options.timeout_ms)
            sys.stdout.flush()
    finally:
        sys.stdout.flush()
        finish(options, records)


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= INT64_MAX


def _places(cluster: Cluster, options: argparse.Namespace) -> list[TopicPartition]:
    """Return the partitions to read. The broker may create a missing topic, as for Kafka's consumer."""
    if options.include is not None:
        wanted = pattern(options.include)
        known = cluster.retrying(lambda: cluster.partitions(None))
        return [(each.topic, each.partition) for each in known if wanted.fullmatch(each.topic)]
    partition_count(cluster, options.topic)
    places = places_of(cluster, [(options.topic, options.partition)])
    if not places:
        raise NotFound(f"there is no topic {options.topic!r}")
    return places


def _start(cluster: Cluster, place: TopicPartition, options: argparse.Namespace) -> int:
    if options.offset is not None and options.offset.isdigit():
        return int(options.offset)
    return _reset_position(cluster, place, options)


def _reset_position(cluster: Cluster, place: TopicPartition, options: argparse.Namespace) -> int:
    """Return the offset from which a partition is read that does not have the wanted one."""
    is_earliest = options.from_beginning or options.offset == "earliest"
    return list_offset(cluster, *place, EARLIEST if is_earliest else LATEST, READ_UNCOMMITTED)
