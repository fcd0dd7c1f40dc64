"""Run Apache Kafka's own commands, to compare ours with them."""

from __future__ import annotations

import re

CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
}


def with_bootstrap(words: list[str], bootstrap: str) -> list[str]:
    """Return a command's arguments with `--bootstrap-server`, which kafka-cluster expects after its verb."""
    command, *arguments = words
    at = 1 if command == "kafka-cluster" else 0
    return [*arguments[:at], "--bootstrap-server", bootstrap, *arguments[at:]]


def settled(text: str, name: str = "") -> list[str]:
    """Return the lines, sorted, without parts that differ between runs: the name, ids, and trailing blanks."""
    text = text.replace(name, "NAME") if name else text
    text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
    lines = (re.sub(r" +", " ", line).rstrip() for line in text.splitlines())
    return sorted(line for line in lines if line and "console-consumer-" not in line)
