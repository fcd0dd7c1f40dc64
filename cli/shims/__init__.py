"""Kafka's own commands, with Kafka's options and output, for scripts, health checks and tutorials that call them in an image.

`kafka-topics.sh` and `kafka-topics` run `stuntbroker kafka-topics`, and so on; `rpk` is Redpanda's command. They need no Java:
they use the same client as `stuntbroker topic` and similar commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

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
    "kafka-storage": "storage",
    "kafka-server-start": "server_start",
    "zookeeper-server-start": "storage",
    "rpk": "rpk.main",
    "redpanda": "rpk.main",
}
"""Command -> module. Each module has `run(command, arguments)`, which returns the exit status."""


def is_shim(command: str) -> bool:
    """Return whether this is the name of one of Kafka's commands, with or without `.sh`."""
    return command.removesuffix(".sh") in COMMANDS


def run_shim(command: str, arguments: list[str]) -> int:
    """Run one of Kafka's commands; return the exit status."""
    from stuntbroker.cli.signals import exit_at_sigterm

    name = command.removesuffix(".sh")
    with exit_at_sigterm():
        status: int = import_module(f"stuntbroker.cli.shims.{COMMANDS[name]}").run(name, arguments)
    return status
