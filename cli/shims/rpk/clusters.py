"""`rpk cluster`: the health of a cluster, and its brokers and topics."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from stuntbroker.cli.shims.arguments import Parser
from stuntbroker.cli.shims.rpk.commands import Command, sections_text
from stuntbroker.cli.shims.rpk.topics import topics_text
from stuntbroker.cli.tables import table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.topics import describe_topics

WATCH_S: Final = 2.0
"""Seconds between two overviews of `rpk cluster health --watch`."""


def _health_options(parser: Parser) -> None:
    parser.add_argument("--watch", "-w", action="store_true", help="print the health again every two seconds")
    parser.add_argument(
        "--exit-when-healthy", "-e", action="store_true", help="with --watch: stop when the cluster is healthy"
    )


def _health(cluster: Cluster, options: argparse.Namespace) -> int:
    is_healthy = _write_health(cluster)
    while options.watch and not (options.exit_when_healthy and is_healthy):
        time.sleep(WATCH_S)
        is_healthy = _write_health(cluster)
    return 0


def _write_health(cluster: Cluster) -> bool:
    """Print the health of the cluster; return whether it is healthy."""
    metadata = cluster.retrying(lambda: cluster.metadata([]))
    running = {each.node_id for each in metadata.brokers}
    partitions = [(topic.name, part) for topic in describe_topics(cluster) for part in topic.partitions]
    nodes = running.union(*(part.replicas for _, part in partitions))
    leaderless = [f"{name}/{part.partition}" for name, part in partitions if part.leader not in running]
    lagging = [f"{name}/{part.partition}" for name, part in partitions if len(part.in_sync) < len(part.replicas)]
    down = sorted(nodes - running)
    problems: dict[str, Sequence[object]] = {
        "nodes_down": down,
        "leaderless_partitions": leaderless,
        "under_replicated_partitions": lagging,
    }
    reasons = [name for name, places in problems.items() if places]
    rows = {
        "Healthy:": str(not reasons).lower(),
        "Unhealthy reasons:": _list(reasons),
        "Controller ID:": str(metadata.controller_id),
        "All nodes:": _list(sorted(nodes)),
        "Nodes down:": _list(down),
        f"Leaderless partitions ({len(leaderless)}):": _list(leaderless),
        f"Under-replicated partitions ({len(lagging)}):": _list(lagging),
    }
    sys.stdout.write("CLUSTER HEALTH OVERVIEW\n=======================\n")
    sys.stdout.write("".join(f"{name:<34} {value}\n" for name, value in rows.items()))
    sys.stdout.flush()
    return not reasons


def _list(elements: Sequence[object]) -> str:
    return f"[{' '.join(map(str, elements))}]"


def _info_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="*", help="topics to print (default: all)")
    for name, short, dest, explanation in (
        ("cluster", "-c", "cluster", "print only the cluster's id"),
        ("brokers", "-b", "brokers", "print only the brokers"),
        ("topics", "-t", "has_topics", "print only the topics"),
        ("internal-topics", "-i", "internal", "print internal topics, too"),
        ("detailed-topics", "-d", "detailed", "print the partitions of the topics"),
    ):
        parser.add_argument(f"--print-{name}", short, dest=dest, action="store_true", help=explanation)


def _info(cluster: Cluster, options: argparse.Namespace) -> int:
    has_topics = options.has_topics or options.topics or options.detailed or options.internal
    is_complete = not (options.cluster or options.brokers or has_topics)
    metadata = cluster.retrying(lambda: cluster.metadata([]))
    sections = {}
    if options.cluster or is_complete:
        sections["CLUSTER"] = f"{metadata.cluster_id}\n"
    if options.brokers or is_complete:
        rows = [
            (f"{each.node_id}*" if each.node_id == metadata.controller_id else each.node_id, each.host, each.port)
            for each in metadata.brokers
        ]
        sections["BROKERS"] = table(("ID", "HOST", "PORT"), rows)
    if has_topics or is_complete:
        topics = describe_topics(cluster, options.topics or None)
        shown = [each for each in topics if not each.is_internal or options.internal or is_complete]
        if topics:
            sections["TOPICS"] = topics_text(shown, is_detailed=options.detailed)
    sys.stdout.write(sections_text(sections))
    return 0


COMMANDS: Final[dict[str, Command]] = {
    "cluster health": Command(_health_options, _health),
    "cluster info": Command(_info_options, _info),
    "cluster metadata": Command(_info_options, _info),
}
"""Words after `rpk` -> command."""
