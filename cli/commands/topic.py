"""`stuntbroker topic`: create, list, describe, delete and grow topics of any Kafka."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from stuntbroker.cli.arguments import UsageError, number
from stuntbroker.cli.commands.verbs import (
    COMMON_USAGE,
    Operation,
    Options,
    Shown,
    Verb,
    key_values,
    optional_number,
    run_verb,
)
from stuntbroker.cli.tables import shown, table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import describe_config
from stuntbroker.client.commands.topics import TopicDescription, create_topic, delete_topic, describe_topics, grow_topic
from stuntbroker.client.errors import BrokerError, NotFound
from stuntbroker.protocol.config_resources import ConfigSource, ResourceType
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX

USAGE: Final = (
    """\
usage: stuntbroker topic COMMAND [options]

  create NAME...     create topics
                     --partitions N                default: the broker's num.partitions
                     --replication-factor N        default: the broker's default.replication.factor
                     --config KEY=VALUE            property of the topic; may be repeated
                     --if-not-exists               succeed if the topic exists

  list               list the names of all topics
                     --internal                    with the broker's own topics

  describe [NAME...] show partitions and configuration of these topics, or of all

  delete NAME...     delete topics and their records
                     --if-exists                   succeed if the topic does not exist

  grow NAME          add partitions to a topic
                     --partitions N                new number of partitions

  The commands work with any Kafka, and have these options:
"""
    + COMMON_USAGE
    + """\

Examples:
  stuntbroker topic create orders --partitions 3 --config cleanup.policy=compact
  stuntbroker topic describe orders
"""
)


def topic(arguments: list[str]) -> int:
    """Run one of the commands for topics; return the exit status."""
    return run_verb("topic", VERBS, arguments)


def _create(given: Options) -> Operation:
    partitions = optional_number(given, "--partitions", 1, INT32_MAX)
    replication_factor = optional_number(given, "--replication-factor", 1, INT16_MAX)
    configs = key_values(given, "--config")
    if_not_exists = "--if-not-exists" in given

    def operation(cluster: Cluster) -> Shown:
        results: dict[str, bool] = {}
        failures = []
        for name in given[""]:
            try:
                results[name] = create_topic(
                    cluster, name, partitions or -1, configs, replication_factor or -1, if_not_exists=if_not_exists
                )
            except BrokerError as fault:
                failures.append(str(fault))
        text = "".join(
            f"created topic {shown(name)}\n" if is_new else f"topic {shown(name)} exists already\n"
            for name, is_new in results.items()
        )
        document = {"topics": [{"name": name, "created": is_new} for name, is_new in results.items()]}
        return Shown(text, document, "; ".join(failures), is_data=False)

    return operation


def _list(given: Options) -> Operation:
    def operation(cluster: Cluster) -> Shown:
        topics = [each for each in describe_topics(cluster) if "--internal" in given or not each.is_internal]
        documents = [
            {"name": each.name, "partitions": len(each.partitions), "internal": each.is_internal} for each in topics
        ]
        return Shown("".join(f"{shown(each.name)}\n" for each in topics), {"topics": documents})

    return operation


def _describe(given: Options) -> Operation:
    def operation(cluster: Cluster) -> Shown:
        names = given.get("")
        topics = [each for each in describe_topics(cluster, names) if names or not each.is_internal]
        described = [(each, changed_properties(cluster, each.name)) for each in topics]
        return Shown(
            "\n".join(_described(each, properties) for each, properties in described),
            {"topics": [_document(each, properties) for each, properties in described]},
        )

    return operation


def changed_properties(cluster: Cluster, name: str) -> dict[str, str | None]:
    """Return the properties that are set on a topic itself, without defaults of the broker or of Kafka."""
    entries = describe_config(cluster, ResourceType.TOPIC, name)
    return {entry.name: entry.value for entry in entries if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG}


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it: URL-safe base64 without padding; empty for zeros."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else ""


def _described(described: TopicDescription, properties: dict[str, str | None]) -> str:
    configured = ", ".join(f"{name}={value}" for name, value in properties.items()) or "only defaults"
    rows = [
        (each.partition, each.leader, ",".join(map(str, each.replicas)), ",".join(map(str, each.in_sync)))
        for each in described.partitions
    ]
    head = f"topic {shown(described.name)}, id {topic_id_text(described.topic_id) or 'none'}\n"
    return head + f"configuration: {shown(configured)}\n" + table(("PARTITION", "LEADER", "REPLICAS", "IN-SYNC"), rows)


def _document(described: TopicDescription, properties: dict[str, str | None]) -> dict[str, Any]:
    return {
        "name": described.name,
        "topic_id": str(UUID(bytes=described.topic_id)),
        "internal": described.is_internal,
        "configuration": properties,
        "partitions": [each._asdict() for each in described.partitions],
    }


def _delete(given: Options) -> Operation:
    def operation(cluster: Cluster) -> Shown:
        deleted, missing = [], []
        for name in given[""]:
            try:
                delete_topic(cluster, name)
                deleted.append(name)
            except NotFound:
                missing.append(name)
        failure = f"there is no topic {', '.join(map(repr, missing))}" if missing and "--if-exists" not in given else ""
        text = "".join(f"deleted topic {shown(name)}\n" for name in deleted)
        return Shown(text, {"deleted": deleted, "not_found": missing}, failure, is_data=False)

    return operation


def _grow(given: Options) -> Operation:
    if "--partitions" not in given:
        raise UsageError("topic grow needs --partitions N")
    partitions = number(given, "--partitions", 0, 1, INT32_MAX)
    (name,) = given[""]

    def operation(cluster: Cluster) -> Shown:
        grow_topic(cluster, name, partitions)
        document = {"name": name, "partitions": partitions}
        return Shown(f"topic {shown(name)} has {partitions} partitions\n", document, is_data=False)

    return operation


VERBS: Final = {
    "create": Verb(_create, ("--partitions", "--replication-factor", "--config"), ("--if-not-exists",), "NAME..."),
    "list": Verb(_list, flags=("--internal",)),
    "describe": Verb(_describe, words="[NAME]..."),
    "delete": Verb(_delete, flags=("--if-exists",), words="NAME..."),
    "grow": Verb(_grow, ("--partitions",), words="NAME"),
}
