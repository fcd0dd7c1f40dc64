"""kafka-broker-api-versions, kafka-cluster and kafka-get-offsets: information for health checks and scripts."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final

from stuntbroker.cli.shims.arguments import INT, CommandError, Parser, guarded, pattern, run_with_cluster
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.request_values import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
)
from stuntbroker.protocol.topic_names import INTERNAL

UNREGISTER_BROKER: Final = 64
"""API key of UnregisterBroker, which this broker does not serve."""
EVERY_PARTITION = range(2**31)
TOPIC_PARTITIONS = re.compile(r"([^:,]*)(?::(?:([0-9]{1,9})|([0-9]{0,9})-([0-9]{0,9}))?)?")
"""topic, and after a colon a partition or a range of partitions"""
NAMES_OF_TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
FROM_TIMES = NAMES_OF_TIMES | {str(number): number for number in NAMES_OF_TIMES.values()}


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded("", lambda: _COMMANDS[command](command, arguments))


def _api_versions(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options()
    return run_with_cluster(parser.parse_args(arguments), _print_api_versions)


def _print_api_versions(cluster: Cluster) -> int:
    for broker in sorted(cluster.retrying(lambda: cluster.metadata([])).brokers, key=lambda each: each.node_id):
        versions = cluster.api_versions(broker.node_id)
        lines = []
        for key, (low, high) in sorted(versions.items()):
            name = APIS[key].name if key in APIS else f"UNKNOWN({key})"
            most = min(high, APIS[key].version_max) if key in APIS else -1
            span = str(low) if low == high else f"{low} to {high}"
            lines.append(f"\t{name}({key}): {span} [usable: {most}]" if most >= low else f"\t{name}({key}): {span}")
        rack = broker.rack or "null"
        sys.stdout.write(f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: false) -> (\n")
        sys.stdout.write(",\n".join(lines) + "\n)\n")
    return 0


def _cluster(command: str, arguments: list[str]) -> int:
    verb, others = (arguments[0], arguments[1:]) if arguments else ("", [])
    if verb in ("--help", "-h"):
        sys.stdout.write(f"usage: {command}.sh {'|'.join(_CLUSTER_COMMANDS)} --bootstrap-server HOST:PORT\n")
        return 0
    if verb not in _CLUSTER_COMMANDS:
        what = f"there is no command {verb}" if verb else "a command is missing"
        raise CommandError(f"{command}: {what}; here there are {', '.join(_CLUSTER_COMMANDS)}")
    parser = Parser(f"{command}.sh {verb}", suffix="")
    parser.add_cluster_options("-b", config_names=("--config", "-c"))
    if verb == "list-endpoints":
        parser.add_flags({"--include-fenced-brokers": "no effect: no broker here is fenced"})
    if verb == "unregister":
        parser.add_argument("--id", "-i", type=INT, required=True, help="node id of the broker")
    return run_with_cluster(parser.parse_args(others), _CLUSTER_COMMANDS[verb])


def _print_cluster_id(cluster: Cluster) -> int:
    sys.stdout.write(f"Cluster ID: {cluster.retrying(lambda: cluster.metadata([])).cluster_id}\n")
    return 0


def _print_endpoints(cluster: Cluster) -> int:
    brokers = cluster.retrying(lambda: cluster.metadata([])).brokers
    width = max([8, *(len(each.host) for each in brokers)])
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (str(each.node_id), each.host, str(each.port), each.rack or "null", "unfenced", "broker") for each in brokers
    ]
    for number, host, port, rack, state, kind in rows:
        sys.stdout.write(f"{number:<10} {host:<{width}} {port:<10} {rack:<10} {state:<10} {kind:<15}\n")
    return 0


def _unregister(cluster: Cluster) -> int:
    """Say what Kafka's command says where brokers cannot be unregistered, which is so in every cluster of this broker."""
    if any(UNREGISTER_BROKER in cluster.api_versions(node_id) for node_id in cluster.broker_ids()):
        raise CommandError("kafka-cluster unregister: brokers of Apache Kafka are unregistered by its own command only")
    sys.stdout.write("The target cluster does not support the broker unregistration API.\n")
    return 0


_CLUSTER_COMMANDS: Final = {
    "cluster-id": _print_cluster_id,
    "unregister": _unregister,
    "list-endpoints": _print_endpoints,
}


def _get_offsets(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options("--broker-list")
    parser.add_argument("--topic", metavar="REGEX,...", help="topics, as regular expressions (default: all)")
    parser.add_argument("--partitions", metavar="N,...", help="partitions (default: all)")
    parser.add_argument(
        "--topic-partitions",
        metavar="TOPIC:N,...",
        help="topics with a partition, or a range from N to before M: TOPIC:N-M",
    )
    parser.add_argument(
        "--time",
        default="latest",
        help=f"{', '.join(NAMES_OF_TIMES)}, or milliseconds since 1970 (default: %(default)s)",
    )
    parser.add_flags({"--exclude-internal-topics": "leave out internal topics"})
    options = parser.parse_args(arguments)
    return run_with_cluster(options, lambda cluster: _print_offsets(cluster, options))


def _print_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.time in FROM_TIMES:
        at = FROM_TIMES[options.time]
    elif options.time.isascii() and options.time.isdigit() and len(options.time) < 19:
        at = int(options.time)
    else:
        raise CommandError(f"--time {options.time}: it must be {', '.join(NAMES_OF_TIMES)} or milliseconds since 1970")
    if options.topic_partitions and (options.topic or options.partitions):
        raise CommandError("--topic-partitions cannot be used with --topic or --partitions")
    if options.topic_partitions:
        filters = [_filter(part) for part in options.topic_partitions.rstrip(", ").split(",")]
    else:
        topics = [part.strip() for part in (options.topic or ".*").split(",")]
        filters = [(pattern(each), EVERY_PARTITION) for each in topics]
    indexes = _indexes(options.partitions) if options.partitions else None
    matching = [
        (each.topic, each.partition)
        for each in cluster.retrying(lambda: cluster.partitions(None))
        if any(topic.fullmatch(each.topic) and each.partition in partitions for topic, partitions in filters)
        and (indexes is None or each.partition in indexes)
        and not (options.exclude_internal_topics and each.topic in INTERNAL)
    ]
    if not matching:
        raise CommandError("Could not match any topic-partitions with the specified filters")
    for topic, partition in matching:
        offset = list_offset(cluster, topic, partition, at, READ_UNCOMMITTED)
        if offset >= 0:
            sys.stdout.write(f"{topic}:{partition}:{offset}\n")
    return 0


def _filter(text: str) -> tuple[re.Pattern[str], range]:
    """Parse `TOPIC`, `TOPIC:PARTITION` or `TOPIC:FROM-TO` (TO is exclusive) to a pattern and a range of partitions.

    TOPIC is a regular expression. Each part may be left out. Raises CommandError.
    """
    matched = TOPIC_PARTITIONS.fullmatch(text.strip())
    if matched is None:
        raise CommandError(f"Invalid topic-partition rule: {text}")
    topic, single, first, end = matched.groups()
    if single:
        partitions = range(int(single), int(single) + 1)
    else:
        partitions = range(int(first or 0), int(end) if end else EVERY_PARTITION.stop)
    return pattern(topic or ".*"), partitions


def _indexes(text: str) -> set[int]:
    """Parse comma-separated partition numbers. Raises CommandError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise CommandError(f"--partitions {text}: it must be numbers of partitions with commas")
    return set(map(int, parts))


_COMMANDS = {
    "kafka-broker-api-versions": _api_versions,
    "kafka-cluster": _cluster,
    "kafka-get-offsets": _get_offsets,
}
