"""Kafka's own commands, with Kafka's options and output, for scripts, health checks and tutorials that call them in an image.

`kafka-topics.sh` and `kafka-topics` run `stuntbroker kafka-topics`, and so on; `rpk` is Redpanda's command. They need no Java:
they use the same client as `stuntbroker topic` and similar commands, which are not here, but in `cli/commands`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
"""Version of Apache Kafka whose commands are imitated."""
COMMANDS: Final = {
    "kafka-topics": "topics",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-configs": "configs",
    "kafka-transactions": "transactions",
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "cluster",
    "kafka-cluster": "cluster",
    "kafka-get-offsets": "cluster",
    "kafka-features": "features",
    "kafka-storage": "storage",
    "kafka-server-start": "server_start",
    "kafka-server-stop": "server_start",
    "zookeeper-server-start": "storage",
    "rpk": "rpk.main",
    "redpanda": "rpk.main",
}
"""Command -> module. Each module has `run(command, arguments)`, which returns the exit status."""


MISSING: Final = frozenset(
    [
        "connect-distributed",
        "connect-mirror-maker",
        "connect-plugin-path",
        "connect-standalone",
        "kafka-client-metrics",
        "kafka-console-share-consumer",
        "kafka-consumer-perf-test",
        "kafka-delegation-tokens",
        "kafka-delete-records",
        "kafka-dump-log",
        "kafka-e2e-latency",
        "kafka-groups",
        "kafka-jmx",
        "kafka-leader-election",
        "kafka-log-dirs",
        "kafka-metadata-quorum",
        "kafka-metadata-shell",
        "kafka-mirror-maker",
        "kafka-producer-perf-test",
        "kafka-reassign-partitions",
        "kafka-replica-verification",
        "kafka-run-class",
        "kafka-share-consumer-perf-test",
        "kafka-share-groups",
        "kafka-streams-application-reset",
        "kafka-streams-groups",
        "kafka-verifiable-consumer",
        "kafka-verifiable-producer",
        "kafka-verifiable-share-consumer",
        "trogdor",
        "zookeeper-shell",
    ]
)
"""Commands of Kafka that are not here, and say so: the image has links with their names."""


def is_shim(command: str) -> bool:
    """Return whether this is the name of one of Kafka's commands, with or without `.sh`."""
    return command.removesuffix(".sh") in COMMANDS.keys() | MISSING


def imitates_kafka(command: str) -> bool:
    """Return whether this is a command of Apache Kafka, and not Redpanda's or a missing one."""
    name = command.removesuffix(".sh")
    return name in COMMANDS and not COMMANDS[name].startswith("rpk.")


def run_shim(command: str, arguments: list[str]) -> int:
    """Run one of Kafka's commands; return the exit status."""
    from stuntbroker.cli.signals import exit_at_sigterm

    name = command.removesuffix(".sh")
    if name in MISSING:
        available = ", ".join(sorted(COMMANDS))
        sys.stderr.write(f"{command}: this command of Apache Kafka is not available here; these are: {available}\n")
        return 1
    with exit_at_sigterm():
        status: int = import_module(f"stuntbroker.cli.shims.{COMMANDS[name]}").run(name, arguments)
    return status
