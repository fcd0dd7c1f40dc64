"""Write docs/properties.md from the properties and their documentation; `--check` only checks that it is up to date.

Types, defaults and texts come from `properties.py` and `config_docs.py` in broker/configuration/. This file adds the
subjects, and the defaults of Apache Kafka 4.3.1 that differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from generated import write_or_check

from stuntbroker.broker.configuration.dynamic_config import NOT_DYNAMIC_HERE
from stuntbroker.broker.configuration.properties import BROKER, TOPIC, WITHOUT_DEFAULT, show

PAGE: Final = Path(__file__).parent.parent / "docs" / "properties.md"
TYPES: Final = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 9: "password"}
"""ConfigType of DescribeConfigs -> its name."""

INTRODUCTION: Final = """\
<!-- Written by `make properties`: change tools/properties_page.py or broker/configuration/config_docs.py instead. -->
# Properties

## How do I set one?

A property of the broker, at the start ([README](../README.md#command-line)):

```
stuntbroker serve --set num.partitions=3 --set log.retention.ms=3600000
stuntbroker serve --config server.properties
```

What Kafka changes dynamically, while the broker runs (`--entity-name 1` instead of `--entity-default`: this broker only):

```
kafka-configs.sh --bootstrap-server localhost:9092 --entity-type brokers --entity-default --alter \\
    --add-config log.retention.ms=60000
```

A property of one topic, while the broker runs, or with `--config` when `kafka-topics.sh` creates the topic:

```
kafka-configs.sh --bootstrap-server localhost:9092 --entity-type topics --entity-name orders --alter \\
    --add-config retention.ms=60000
```

## How do I see what is set?

```
kafka-configs.sh --bootstrap-server localhost:9092 --entity-type brokers --entity-name 1 --describe --all
kafka-configs.sh --bootstrap-server localhost:9092 --entity-type topics --entity-name orders --describe --all
```

Programs get the descriptions of this page too: `new DescribeConfigsOptions().includeDocumentation(true)` in Java.

## What do the tables say?

- The names are Kafka's. Names that begin with `stuntbroker.` are ours, and so is `transaction.version`, which is only a
  feature in Kafka.
- "can change": while the broker runs, by `kafka-configs.sh` or `stuntbroker config set`. A topic's properties always can.
- "No effect here": the property is accepted, stored and described, and changes nothing. The log has a warning at the start.
- A property of Kafka's broker that is not on this page is accepted at the start with a warning, and has no effect. A property
  of a topic that is not on this page is refused.
- A default of `null` means that the property has no value until it is set.
- "Default from" is the property of the broker that has the default for all topics. Without one, the default is fixed.
- "In Kafka" is the default of Apache Kafka 4.3.1 where it is another one. [differences.md](differences.md) explains those that
  change what a client sees.
"""

TOPIC_SUBJECTS: Final = {
    "Retention and segments": "cleanup.policy retention.ms retention.bytes segment.bytes internal.segment.bytes segment.ms",
    "Compaction": "min.compaction.lag.ms delete.retention.ms max.compaction.lag.ms min.cleanable.dirty.ratio",
    "Batches": (
        "max.message.bytes compression.type message.timestamp.type message.timestamp.before.max.ms "
        "message.timestamp.after.max.ms compression.gzip.level compression.lz4.level compression.zstd.level"
    ),
    "Files": (
        "flush.messages flush.ms file.delete.delay.ms index.interval.bytes segment.index.bytes segment.jitter.ms preallocate"
    ),
    "Replication and tiered storage": (
        "min.insync.replicas unclean.leader.election.enable leader.replication.throttled.replicas "
        "follower.replication.throttled.replicas remote.storage.enable remote.log.copy.disable remote.log.delete.on.disable "
        "local.retention.bytes local.retention.ms"
    ),
}
"""Subject -> properties of a topic, in the order of the page."""

BROKER_SUBJECTS: Final = {
    "Addresses and identity": (
        "listeners advertised.listeners listener.security.protocol.map controller.listener.names stuntbroker.mapped.address "
        "stuntbroker.mapped.address.wait.ms node.id broker.id broker.rack stuntbroker.nodes stuntbroker.cluster.id "
        "stuntbroker.personality"
    ),
    "Connections and requests": (
        "max.connections max.connections.per.ip max.connections.per.ip.overrides connections.max.idle.ms "
        "socket.listen.backlog.size socket.request.max.bytes queued.max.request.bytes "
        "stuntbroker.write.buffer.bytes fetch.max.bytes max.incremental.fetch.session.cache.slots replica.selector.class"
    ),
    "Security": (
        "authorizer.class.name super.users allow.everyone.if.no.acl.found stuntbroker.principal "
        "stuntbroker.users sasl.enabled.mechanisms stuntbroker.jaas.file connections.max.reauth.ms "
        "sasl.server.max.receive.size ssl.keystore.location "
        "ssl.keystore.password ssl.keystore.key ssl.keystore.certificate.chain ssl.key.password ssl.keystore.type "
        "ssl.client.auth ssl.truststore.location ssl.truststore.password ssl.truststore.certificates ssl.truststore.type "
        "ssl.principal.mapping.rules ssl.enabled.protocols"
    ),
    "Topics": (
        "auto.create.topics.enable delete.topic.enable num.partitions default.replication.factor "
        "stuntbroker.replication.factor min.insync.replicas message.max.bytes compression.type log.message.timestamp.type"
    ),
    "Retention, segments and compaction": (
        "log.cleanup.policy log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes "
        "log.retention.check.interval.ms log.segment.bytes log.roll.ms log.roll.hours log.cleaner.backoff.ms "
        "log.cleaner.delete.retention.ms log.cleaner.min.cleanable.ratio"
    ),
    "Consumer groups and offsets": (
        "group.initial.rebalance.delay.ms group.min.session.timeout.ms group.max.session.timeout.ms group.max.size "
        "stuntbroker.groups.max.bytes offset.metadata.max.bytes offsets.retention.minutes "
        "offsets.retention.check.interval.ms offsets.topic.num.partitions offsets.topic.segment.bytes "
        "offsets.topic.replication.factor"
    ),
    "Producers": (
        "producer.id.expiration.ms producer.id.expiration.check.interval.ms stuntbroker.initial.producer.id "
        "stuntbroker.initial.producer.epoch"
    ),
    "Transactions": (
        "transaction.version transaction.two.phase.commit.enable stuntbroker.deny.two.phase.commit stuntbroker.profile "
        "transaction.max.timeout.ms transaction.abort.timed.out.transaction.cleanup.interval.ms "
        "transactional.id.expiration.ms transaction.remove.expired.transaction.cleanup.interval.ms "
        "transaction.partition.verification.enable add.partitions.to.txn.retry.backoff.ms "
        "add.partitions.to.txn.retry.backoff.max.ms transaction.state.log.num.partitions "
        "transaction.state.log.segment.bytes transaction.state.log.replication.factor"
    ),
}
"""Subject -> properties of the broker, in the order of the page."""

KAFKA_DEFAULTS: Final = {
    "broker.id": "-1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": "2147483647",
    "listeners": "PLAINTEXT://:9092",
    "log.cleaner.backoff.ms": "15000",
    "max.connections": "2147483647",
    "node.id": "null",
    "offsets.topic.replication.factor": "3",
    "queued.max.request.bytes": "-1",
    "socket.listen.backlog.size": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.state.log.replication.factor": "3",
    "transaction.two.phase.commit.enable": "false",
    "transaction.version": "feature only",
}
"""Property of the broker -> its default in Apache Kafka 4.3.1, if different."""


class SubjectError(Exception):
    """A property is listed under no subject or under two, or a listed property does not exist."""


def main() -> int:
    return write_or_check(PAGE, page(), "make properties")


def page() -> str:
    """Return the whole page. Raises SubjectError."""
    check_subjects(TOPIC_SUBJECTS, TOPIC.keys())
    check_subjects(BROKER_SUBJECTS, BROKER.keys())
    parts = [INTRODUCTION, "## Properties of a topic\n"]
    for subject, names in TOPIC_SUBJECTS.items():
        parts += [f"### Topic: {subject.lower()}\n", topic_table(names.split())]
    parts.append("## Properties of the broker\n")
    for subject, names in BROKER_SUBJECTS.items():
        parts += [f"### Broker: {subject.lower()}\n", broker_table(names.split())]
    return "\n".join(parts)


def check_subjects(subjects: dict[str, str], known: Iterable[str]) -> None:
    """Raise SubjectError unless each known property is under exactly one subject."""
    listed = [name for names in subjects.values() for name in names.split()]
    wrong = sorted({name for name in listed if listed.count(name) > 1} | set(listed) ^ set(known))
    if wrong:
        raise SubjectError(f"put each of these under one subject of tools/properties_page.py: {', '.join(wrong)}")


def topic_table(names: list[str]) -> str:
    rows = ["| property | type | default | default from | what it does |", "|---|---|---|---|---|"]
    for name in names:
        known, broker_name = TOPIC[name]
        source = code(broker_name) if broker_name in BROKER else ""
        default = "null" if known.default is None else show(known.default)
        cells = [code(name), TYPES[known.kind], code(default), source, prose(known.documentation)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def broker_table(names: list[str]) -> str:
    rows = ["| property | type | default | in Kafka | can change | what it does |", "|---|---|---|---|---|---|"]
    for name in names:
        known, default = BROKER[name], default_of(name)
        cells = [code(name), TYPES[known.kind], code(default), in_kafka(name), "yes" if can_change(name) else ""]
        rows.append(f"| {' | '.join(cells)} | {prose(known.documentation)} |")
    return "\n".join(rows) + "\n"


def can_change(name: str) -> bool:
    """Return whether a broker property can change while the broker runs."""
    return BROKER[name].is_dynamic and name not in NOT_DYNAMIC_HERE


def default_of(name: str) -> str:
    """Return the default of a broker property as DescribeConfigs shows it."""
    return "null" if name in WITHOUT_DEFAULT else show(BROKER[name].default)


def in_kafka(name: str) -> str:
    """Return the cell for the default in Kafka, empty if it is the same."""
    if name.startswith("stuntbroker."):
        return "not there"
    known = KAFKA_DEFAULTS.get(name, "")
    return known if " " in known else code(known) if known else ""


def code(text: str | None) -> str:
    return f"`{text}`" if text else "empty"


def prose(text: str) -> str:
    """Escape the special characters of Markdown."""
    return re.sub(r"([*_<|`])", r"\\\1", text)


if __name__ == "__main__":
    sys.exit(main())
