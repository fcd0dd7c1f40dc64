"""rpk, Redpanda's command: `rpk redpanda start` runs the broker, `rpk cluster`, `rpk topic` and `rpk group` ask one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from stuntbroker.cli.shims import rpk_consume
from stuntbroker.cli.shims.arguments import (
    BOOTSTRAP_DEFAULT,
    INT,
    PARTITION_COUNT,
    SHORT,
    CommandError,
    Parser,
    guarded,
    run_with_cluster,
)
from stuntbroker.cli.tables import table
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.configs import ResourceType, alter_config
from stuntbroker.client.errors import BrokerError, NotFound
from stuntbroker.client.groups import delete_group, list_groups
from stuntbroker.client.producing import IdempotentWriter, NewRecord
from stuntbroker.client.topics import create_topic, delete_topic, describe_topics, grow_topic
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import INTERNAL

CONFIG_FILE: Final = "/etc/redpanda/redpanda.yaml"
CONFIG_WAIT_S: Final = 5.0
CONFIG_POLL_S: Final = 0.1
WITHOUT_KAFKA: Final = "8081,8082,9644"
"""Ports of Redpanda's schema registry, HTTP proxy and administration, which some modules wait for."""


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    words = ["redpanda", *arguments] if command == "redpanda" else arguments
    return guarded("", lambda: _run(words))


def _run(arguments: list[str]) -> int:
    if arguments[:2] == ["redpanda", "start"]:
        return _start(arguments[2:])
    if arguments[:1] in (["version"], ["--version"]):
        from stuntbroker.cli.arguments import VERSION

        sys.stdout.write(f"Version:     stuntbroker {VERSION}\n")
        return 0
    command = " ".join(arguments[:2])
    if command not in _COMMANDS:
        raise CommandError(f"rpk {command}: here there are redpanda start, {', '.join(_COMMANDS)}, version")
    parser = Parser(f"rpk {command}")
    parser.add_argument(
        "--brokers", "-X", dest="bootstrap", type=_brokers, default=os.environ.get("RPK_BROKERS", BOOTSTRAP_DEFAULT)
    )
    add_options, operation = _COMMANDS[command]
    add_options(parser)
    options = parser.parse_args(arguments[2:])
    return run_with_cluster(options, lambda cluster: operation(cluster, options), wait_s=0)


def _brokers(text: str) -> str:
    return text.removeprefix("brokers=")


# --- redpanda start


def _start(arguments: list[str]) -> NoReturn:
    """Become the broker. Options that mean nothing here are passed over, as there are a hundred for Redpanda's own engine."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kafka-addr")
    parser.add_argument("--advertise-kafka-addr")
    # In compose files an option and its value are often one word, which Redpanda's entry point takes apart.
    options, others = parser.parse_known_args([part for word in arguments for part in word.split()])
    if others:
        sys.stderr.write(f"rpk: passed over: {' '.join(others)}\n")
    listeners, advertised = options.kafka_addr, options.advertise_kafka_addr
    if listeners is None and advertised is None:
        listeners, advertised = _from_yaml(_read_config())
    elif listeners is None:
        listeners = _listening_for(advertised)
    settings = {
        "listeners": _named(listeners or "internal://0.0.0.0:9092"),
        "advertised.listeners": _named(advertised or ""),
    }
    names = {entry.partition("://")[0] for value in settings.values() for entry in value.split(",") if entry}
    settings["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in sorted(names))
    words = ["stuntbroker", "serve", "--container", "--not-found-ports", WITHOUT_KAFKA]
    for name, value in settings.items():
        if value:
            words += ["--set", f"{name}={value}"]
    sys.stderr.flush()
    os.execvp(sys.executable, [sys.executable, "-m", *words])


def _listening_for(advertised: str) -> str:
    """At every address on 9092, and on the next ports where several names are advertised."""
    names = [entry.split("://")[0] for entry in _named(advertised).split(",")]
    return ",".join(f"{name}://0.0.0.0:{9092 + index}" for index, name in enumerate(names))


def _named(addresses: str) -> str:
    """`host:port` and `name://host:port` as Kafka's properties have them."""
    entries = (entry.strip() for entry in addresses.split(",") if entry.strip())
    return ",".join(entry if "://" in entry else f"PLAINTEXT://{entry}" for entry in entries)


def _read_config() -> dict[str, Any]:
    """The configuration file; empty when there is none."""
    deadline_s = time.monotonic() + (CONFIG_WAIT_S if os.path.isdir(os.path.dirname(CONFIG_FILE)) else 0)
    text, before = _read(CONFIG_FILE), None
    # A module of Testcontainers copies the file into the container, possibly while we run.
    while (not text or text != before) and time.monotonic() < deadline_s:
        time.sleep(CONFIG_POLL_S)
        before, text = text, _read(CONFIG_FILE)
    if not text:
        return {}
    try:
        import yaml
    except ImportError:
        raise CommandError(f"{CONFIG_FILE} cannot be read without PyYAML: pip install 'stuntbroker[image]'") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as fault:
        raise CommandError(f"{CONFIG_FILE}: {fault}") from None
    return document if isinstance(document, dict) else {}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as fault:
        raise CommandError(f"{path}: {fault.strerror}") from None


def _from_yaml(document: dict[str, Any]) -> tuple[str, str]:
    """(listeners, advertised listeners) of redpanda.yaml."""
    redpanda = document.get("redpanda") or {}
    listed = []
    for key in ("kafka_api", "advertised_kafka_api"):
        entries = redpanda.get(key) or []
        entries = entries if isinstance(entries, list) else [entries]
        listed.append(
            ",".join(f"{each.get('name', 'PLAINTEXT')}://{each['address']}:{each['port']}" for each in entries)
        )
    return listed[0], listed[1]


# --- cluster


def _no_options(parser: Parser) -> None:
    parser.add_argument("--watch", "-w", action="store_true")
    parser.add_argument("--exit-when-healthy", "-e", action="store_true")


def _health(cluster: Cluster, options: argparse.Namespace) -> int:
    metadata = cluster.retrying(lambda: cluster.metadata([]))
    brokers = [each.node_id for each in metadata.brokers]
    rows = {
        "Healthy:": "true",
        "Unhealthy reasons:": "[]",
        "Controller ID:": str(metadata.controller_id),
        "All nodes:": str(brokers),
        "Nodes down:": "[]",
        "Leaderless partitions (0):": "[]",
        "Under-replicated partitions (0):": "[]",
    }
    sys.stdout.write("CLUSTER HEALTH OVERVIEW\n=======================\n")
    sys.stdout.write("".join(f"{name:<34} {value}\n" for name, value in rows.items()))
    return 0


def _info(cluster: Cluster, options: argparse.Namespace) -> int:
    metadata = cluster.retrying(lambda: cluster.metadata([]))
    sys.stdout.write(f"CLUSTER\n=======\n{metadata.cluster_id}\n\nBROKERS\n=======\n")
    sys.stdout.write(f"{'ID':<4}  {'HOST':<20}  PORT\n")
    for each in metadata.brokers:
        identifier = f"{each.node_id}*" if each.node_id == metadata.controller_id else str(each.node_id)
        sys.stdout.write(f"{identifier:<4}  {each.host:<20}  {each.port}\n")
    return 0


# --- topic


def _topic_options(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+" if "list" not in parser.prog else "*")
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


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    topics = [each for each in describe_topics(cluster) if not each.is_internal]
    rows = [(each.name, len(each.partitions), len(each.partitions[0].replicas)) for each in topics]
    sys.stdout.write(table(("NAME", "PARTITIONS", "REPLICAS"), rows))
    return 0


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    for topic in describe_topics(cluster, options.topics):
        sys.stdout.write(f"SUMMARY\n=======\nNAME        {topic.name}\nPARTITIONS  {len(topic.partitions)}\n")
        sys.stdout.write(f"REPLICAS    {len(topic.partitions[0].replicas)}\n")
    return 0


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
    writer = IdempotentWriter(cluster)
    for line in sys.stdin.buffer:
        (appended,) = writer.produce(options.topic, [NewRecord(key, line.rstrip(b"\r\n"), (), partition)])
        sys.stdout.write(f"Produced to partition {appended.partition} at offset {appended.first_offset}.\n")
        sys.stdout.flush()
    return 0


_COMMANDS = {
    "cluster health": (_no_options, _health),
    "cluster info": (_no_options, _info),
    "cluster metadata": (_no_options, _info),
    "topic create": (_topic_options, _create),
    "topic list": (_topic_options, _list),
    "topic describe": (_topic_options, _describe),
    "topic delete": (_topic_options, _delete),
    "topic produce": (_produce_options, _produce),
    "topic consume": (rpk_consume.add_options, rpk_consume.consume),
    "topic add-partitions": (_add_partitions_options, _add_partitions),
    "topic alter-config": (_alter_config_options, _alter_config),
    "group list": (_no_more_options, _list_groups),
    "group delete": (_delete_group_options, _delete_groups),
}
