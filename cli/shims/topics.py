"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

import argparse
import sys

from stuntbroker.cli.commands.topic import topic_id_text
from stuntbroker.cli.shims.arguments import (
    PARTITION_COUNT,
    REPLICATION_FACTOR,
    CommandError,
    Parser,
    UsageFault,
    guarded,
    pattern,
    run_with_cluster,
)
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import describe_config
from stuntbroker.client.commands.topics import (
    PartitionDescription,
    TopicDescription,
    create_topic,
    delete_topic,
    describe_topics,
    grow_topic,
)
from stuntbroker.client.errors import BrokerError
from stuntbroker.protocol.config_resources import ConfigSource, ResourceType
from stuntbroker.protocol.errors import ErrorCode

ACTIONS = {
    "create": "create a topic",
    "list": "list topics",
    "describe": "show partitions and properties of topics",
    "alter": "add partitions to a topic, by the new --partitions",
    "delete": "delete topics",
}
"""Action -> what it does."""
LIMITS = {
    "--under-replicated-partitions": "with --describe: only partitions with replicas that are not in sync",
    "--unavailable-partitions": "with --describe: only partitions without a leader",
    "--under-min-isr-partitions": "with --describe: only partitions with fewer replicas in sync than min.insync.replicas",
    "--at-min-isr-partitions": "with --describe: only partitions with just min.insync.replicas in sync",
}
"""Options that limit `--describe` to unhealthy partitions -> what they mean."""
ACTIONS_OF = {
    **dict.fromkeys((limit[2:] for limit in LIMITS), ("describe",)),
    "topics-with-overrides": ("describe",),
    "exclude-internal": ("list", "describe"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "config": ("create", "alter"),
    "partitions": ("create", "alter"),
    "replica-assignment": ("create", "alter"),
    "replication-factor": ("create",),
}
"""Option -> the actions that take it."""
MIN_IN_SYNC = "min.insync.replicas"
OVERRIDDEN = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    what = "Error while executing topic command : "
    return guarded(what, lambda: _run(command, arguments), failures_on_stdout=True)


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options()
    parser.add_argument("--topic", help="name of the topic; a regular expression, except with --create")
    parser.add_argument("--topic-id", metavar="ID", help="with --describe: id of the topic, instead of its name")
    parser.add_argument("--partitions", type=PARTITION_COUNT, metavar="N", help="number of partitions")
    parser.add_argument("--replication-factor", type=REPLICATION_FACTOR, metavar="N", help="number of replicas")
    parser.add_argument(
        "--replica-assignment",
        type=_assignment,
        metavar="ID:ID,...",
        help="brokers of each partition, instead of --partitions and --replication-factor",
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="property of a new topic; may be repeated"
    )
    parser.add_argument(
        "--delete-config",
        action="append",
        default=[],
        metavar="KEY",
        help="an option of older versions: use kafka-configs",
    )
    parser.add_argument(
        "--partition-size-limit-per-response",
        type=PARTITION_COUNT,
        metavar="N",
        help="no effect: all are requested at once",
    )
    parser.add_flags({f"--{action}": explanation for action, explanation in ACTIONS.items()} | LIMITS)
    parser.add_flags(
        {
            "--topics-with-overrides": "with --describe: only topics with properties of their own",
            "--exclude-internal": "with --list and --describe: leave out internal topics",
            "--if-not-exists": "with --create: change nothing if the topic exists",
            "--if-exists": "with --alter, --delete and --describe: change nothing if the topic does not exist",
            "--force": "no effect: nothing is asked",
            "--disable-rack-aware": "no effect: replicas are not assigned by rack",
        }
    )
    options = parser.parse_args(arguments)
    actions = [action for action in ACTIONS if getattr(options, action)]
    if len(actions) != 1:
        raise UsageFault("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if actions[0] in ("create", "alter", "delete") and not options.topic:
        raise UsageFault('Missing required argument "[topic]"')
    _check_combination(options, actions[0])
    return run_with_cluster(options, lambda cluster: _ACTIONS[actions[0]](cluster, options))


def _check_combination(options: argparse.Namespace, action: str) -> None:
    """Raise UsageFault for an option that the action, or another option, excludes."""
    for option, actions in ACTIONS_OF.items():
        if action not in actions and _is_given(options, option):
            raise UsageFault(f'Option "[{option}]" can\'t be used with option "[{action}]"')
    excluded = [("topics-with-overrides", limit[2:]) for limit in LIMITS]
    excluded += [("partitions", "replica-assignment"), ("replication-factor", "replica-assignment")]
    for option, other in excluded if action in ("create", "describe") else ():
        if _is_given(options, option) and _is_given(options, other):
            raise UsageFault(f'Option "[{other}]" can\'t be used with option "[{option}]"')


def _is_given(options: argparse.Namespace, option: str) -> bool:
    return getattr(options, option.replace("-", "_")) not in (None, False, [])


def _create(cluster: Cluster, options: argparse.Namespace) -> int:
    configs = dict(text.partition("=")[::2] for text in options.config)
    if any(character in options.topic for character in "._"):
        sys.stdout.write(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid "
            "issues it is best to use either, but not both.\n"
        )
    try:
        is_new = create_topic(
            cluster,
            options.topic,
            options.partitions or -1,
            configs,
            options.replication_factor or -1,
            if_not_exists=options.if_not_exists,
            assignment=options.replica_assignment or (),
        )
    except BrokerError as fault:
        if fault.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            raise CommandError(f"Topic '{options.topic}' already exists.") from fault
        raise
    if is_new:
        sys.stdout.write(f"Created topic {options.topic}.\n")
    return 0


def _assignment(text: str) -> list[list[int]]:
    """Parse the broker ids of each partition, such as `1:2,2:1`; an argument type for argparse."""
    partitions = [part.split(":") for part in text.replace(" ", "").split(",")]
    if not all(each.isascii() and each.isdigit() and len(each) < 10 for brokers in partitions for each in brokers):
        raise argparse.ArgumentTypeError(f"{text!r} must be ids of brokers, as in 1:2,2:1 for two partitions")
    return [[int(each) for each in brokers] for brokers in partitions]


def _matching(cluster: Cluster, options: argparse.Namespace, if_exists: bool) -> list[TopicDescription]:
    """Return the topics that match --topic, a name or an expression, or --topic-id. Raises CommandError if there is none."""
    topics = [each for each in describe_topics(cluster) if not (options.exclude_internal and each.is_internal)]
    if options.topic_id:
        matching = [topic for topic in topics if topic_id_text(topic.topic_id) == options.topic_id]
        if not matching and not if_exists:
            raise CommandError(f"TopicId '{options.topic_id}' does not exist as expected")
        return matching
    if not options.topic:
        return topics
    wanted = pattern("|".join(part.strip() for part in options.topic.split(",")))
    matching = [topic for topic in topics if wanted.fullmatch(topic.name)]
    if not matching and not if_exists:
        raise CommandError(f"Topic '{options.topic}' does not exist as expected")
    return matching


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    topics = _matching(cluster, options, if_exists=True)
    sys.stdout.write("".join(f"{topic.name}\n" for topic in topics))
    return 0


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    for topic in _matching(cluster, options, options.if_exists):
        entries = describe_config(cluster, ResourceType.TOPIC, topic.name)
        min_in_sync = next((int(each.value or 1) for each in entries if each.name == MIN_IN_SYNC), 1)
        overridden = [f"{entry.name}={entry.value}" for entry in entries if entry.source in OVERRIDDEN]
        if options.topics_with_overrides and not overridden:
            continue
        if not any(getattr(options, limit[2:].replace("-", "_")) for limit in LIMITS):
            replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
            sys.stdout.write(
                f"Topic: {topic.name}\tTopicId: {topic_id_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
                f"ReplicationFactor: {replicas}\tConfigs: {','.join(overridden)}\n"
            )
        for each in topic.partitions if not options.topics_with_overrides else ():
            if not _is_wanted(each, options, min_in_sync):
                continue
            leader = str(each.leader) if each.leader >= 0 else "none"
            sys.stdout.write(
                f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}\t"
                f"Replicas: {','.join(map(str, each.replicas))}\tIsr: {','.join(map(str, each.in_sync))}\t"
                "Elr: \tLastKnownElr: \n"
            )
    return 0


def _is_wanted(partition: PartitionDescription, options: argparse.Namespace, min_in_sync: int) -> bool:
    """Return whether the options that limit `--describe` select a partition."""
    in_sync = len(partition.in_sync)
    return not (
        (options.under_replicated_partitions and in_sync >= len(partition.replicas))
        or (options.unavailable_partitions and partition.leader >= 0)
        or (options.under_min_isr_partitions and in_sync >= min_in_sync)
        or (options.at_min_isr_partitions and in_sync != min_in_sync)
    )


def _alter(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.config:
        raise UsageFault('Option "[config]" can\'t be used with option "[alter]": kafka-configs changes properties')
    if options.partitions is None:
        raise UsageFault('Missing required argument "[partitions]"')
    if options.delete_config:
        sys.stderr.write("--delete-config has no effect: kafka-configs changes properties\n")
    for topic in _matching(cluster, options, options.if_exists):
        # As in Kafka, the assignment names the brokers of all partitions, also of those that exist already.
        grow_topic(cluster, topic.name, options.partitions, (options.replica_assignment or [])[len(topic.partitions) :])
    return 0


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    for topic in _matching(cluster, options, options.if_exists):
        delete_topic(cluster, topic.name)
    return 0


_ACTIONS = {"create": _create, "list": _list, "describe": _describe, "alter": _alter, "delete": _delete}
