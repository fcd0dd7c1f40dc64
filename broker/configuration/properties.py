"""The properties of brokers and topics: Kafka's own names, and ours, which begin with `stuntbroker.`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from stuntbroker.broker.configuration.dynamic_properties import (
    BOOLEAN,
    DOUBLE,
    DYNAMIC,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
)
from stuntbroker.protocol.addresses import parse_address
from stuntbroker.protocol.primitives import INT16_MAX, INT32_MAX, INT64_MAX, INT64_MIN
from stuntbroker.protocol.transaction_states import EPOCH_LAST
from stuntbroker.protocol.versions import OLDER_RELEASES, RELEASE

PARTITIONS_MAX: Final = 10_000
"""Maximum number of partitions that one request can create, or a topic can have when it is created."""
SEGMENT_BYTES_MIN: Final = 1_048_576
MAX_CONNECTIONS: Final = "max.connections"
MAX_PER_IP: Final = "max.connections.per.ip"
MAX_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""Property of a topic that replaces `segment.bytes` without its minimum. Kafka too shows it only if it is set."""


class ConfigError(ValueError):
    """An invalid value of a property. The message names the property, the reason and valid values."""


class Property(NamedTuple):
    """A configuration property."""

    default: Any
    read: Callable[[str], Any]
    """Parses the text of a value. Raises ConfigError."""
    kind: int
    """ConfigType of DescribeConfigs: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password."""
    has_effect: bool = True
    """If False, the property is accepted, stored and described, but changes nothing."""
    name: str = ""
    is_of_topic: bool = False
    is_dynamic: bool = True
    """Whether the property can change while the broker runs; always True for topic properties."""

    @property
    def documentation(self) -> str:
        """Documentation of the property, for DescribeConfigs and docs/properties.md."""
        from stuntbroker.broker.configuration.config_docs import BROKER_DOCS, TOPIC_DOCS  # Only loaded to be shown.

        return (TOPIC_DOCS if self.is_of_topic else BROKER_DOCS)[self.name]

    def without_effect(self) -> Property:
        """Return the property marked as one that changes nothing here."""
        return self._replace(has_effect=False)


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,99}", text):  # int() takes underscores, and not thousands of digits.
            raise ConfigError(f"{text!r} is not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ConfigError(f"{value} is not in {low}..{high}")
        return value

    return read


def _ratio(text: str) -> float:
    match = re.fullmatch(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?", text)  # Java's numbers.
    if match is None:
        raise ConfigError(f"{text!r} is not a number")
    value = float(match[1])
    if not 0 <= value <= 1:
        raise ConfigError(f"{value} is not in 0..1")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _text(text: str) -> str:
    return text


def _visible(text: str) -> str:
    if not re.fullmatch("[!-~]*", text):
        raise ConfigError(f"{text!r} is not of visible ASCII characters only")
    return text


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ConfigError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return read


def _list_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        for part in text.split(",") if text else ():
            if part.strip() not in choices:
                raise ConfigError(f"{part.strip()!r} is none of {', '.join(choices)}")
        return text

    return read


def _ids_or_prefixes(text: str) -> str:
    """Validate a list of names and prefixes (`PREFIX*`)."""
    for part in map(str.strip, text.split(",")):
        if "*" in part[:-1]:
            raise ConfigError(
                f"{part!r} has a * before its end: an entry is a name, or PREFIX* for all names with this prefix"
            )
    return text


def _by_listener(*choices: str) -> Callable[[str], str]:
    """Return a validator for a list of choices, each for all listeners or, as NAME:CHOICE, for one."""

    def read(text: str) -> str:
        for part in map(str.strip, text.split(",")):
            choice = part.rpartition(":")[2]
            if choice not in choices:
                raise ConfigError(f"{part!r}: {choice!r} is none of {', '.join(choices)}")
        return text

    return read


def _retention(high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = _number(-1, high)(text)
        if value == 0:
            raise ConfigError("0 is neither -1 (unlimited) nor at least 1")
        return value

    return read


def _gzip_level(text: str) -> int:
    level = _number(-1, 9)(text)
    if level == 0:
        raise ConfigError("0 is neither -1 nor in 1..9")
    return level


def _address(text: str) -> str:
    """Validate `HOST:PORT`, or an empty text."""
    try:
        is_whole = not text or all(parse_address(text))
    except ValueError as fault:
        raise ConfigError(str(fault)) from None
    if not is_whole:
        raise ConfigError(f"{text!r} is not HOST:PORT")
    return text


def _replicas(text: str) -> str:
    if text != "*" and not re.fullmatch(r"(\d+:\d+(,\d+:\d+)*)?", text):
        raise ConfigError(f"{text!r} is not '*' or a list of [partitionId]:[brokerId]")
    return text


def _switched_off(text: str) -> bool:
    """Refuse True: there is no tiered storage."""
    if _boolean(text):
        raise ConfigError("Tiered Storage functionality is disabled in the broker.")
    return False


def _list(default: str, read: Callable[[str], str]) -> Property:
    return Property(default, read, LIST)


def _int(default: int, low: int = 0, high: int = INT32_MAX) -> Property:
    return Property(default, _number(low, high), INT)


def _short(default: int, low: int) -> Property:
    return Property(default, _number(low, INT16_MAX), SHORT)


def _long(default: int, low: int = 0, high: int = INT64_MAX) -> Property:
    return Property(default, _number(low, high), LONG)


def _bool(default: bool) -> Property:
    return Property(default, _boolean, BOOLEAN)


def _password(read: Callable[[str], str] = _text) -> Property:
    return Property("", read, PASSWORD)


def _counts_by_address(text: str) -> str:
    if text:
        from stuntbroker.broker.configuration.address_counts import problem_of_counts  # Rarely given.

        if problem := problem_of_counts(text):
            raise ConfigError(problem)
    return text


def _users(text: str) -> str:
    """Validate a list of `NAME:PASSWORD`."""
    for number, entry in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, _, password = entry.partition(":")
        if not name or not password:
            raise ConfigError(f"entry {number} is not NAME:PASSWORD")
    return text


def _permissions(problem_of: Callable[[Any], Callable[[str], str]]) -> Callable[[str], str]:
    """Return a validator of `permission_values`, a module that is loaded only when one of its properties is given."""

    def read(text: str) -> str:
        from stuntbroker.broker.configuration import permission_values

        if problem := problem_of(permission_values)(text):
            raise ConfigError(problem)
        return text

    return read


def _string(default: str, read: Callable[[str], str] = _text) -> Property:
    return Property(default, read, STRING)


NODES_MAX: Final = 100
KAFKA: Final = "kafka"
KIP_588: Final = "kip-588"
KIP_447_DRAFT: Final = "kip-447-draft"
POLICY = _list_of("delete", "compact")
COMPRESSION = _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TIME_TYPE = _one_of("CreateTime", "LogAppendTime")

_BROKER: Final[dict[str, Property]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": _int(100, 0).without_effect(),
    "add.partitions.to.txn.retry.backoff.ms": _int(20, 1).without_effect(),
    "advertised.listeners": _list("", _text),
    "allow.everyone.if.no.acl.found": _bool(False),
    "authorizer.class.name": _string("", _permissions(lambda module: module.problem_of_authorizer)),
    "auto.create.topics.enable": _bool(True),
    # Unlike Kafka: with several nodes, a list of racks, assigned to the nodes in turn.
    "broker.rack": _string(""),
    "broker.id": _int(1, 0),
    "compression.type": _string("producer", COMPRESSION),
    "connections.max.idle.ms": _long(600_000, -1),
    "connections.max.reauth.ms": _long(0),
    "controller.listener.names": _list("", _text),
    "default.replication.factor": _int(1, 1, INT16_MAX),
    "delete.topic.enable": _bool(True),
    "fetch.max.bytes": _int(57_671_680, 1_024),
    # Unlike Kafka: 0, not 3000, so that the consumer of a test starts without a delay.
    "group.initial.rebalance.delay.ms": _int(0),
    "group.max.session.timeout.ms": _int(1_800_000, 1),
    # Unlike Kafka: 10,000; Kafka has no limit.
    "group.max.size": _int(10_000, 1),
    "group.min.session.timeout.ms": _int(6_000, 1),
    "listener.security.protocol.map": _string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "listeners": _list("", _text),
    # Unlike Kafka: 500, not 15000: the internal logs stay small.
    "log.cleaner.backoff.ms": _long(500, 1),
    "log.cleaner.delete.retention.ms": _long(86_400_000),
    "log.cleaner.min.cleanable.ratio": Property(0.5, _ratio, DOUBLE),
    "log.cleanup.policy": _list("delete", POLICY),
    "log.message.timestamp.type": _string("CreateTime", TIME_TYPE),
    "log.retention.bytes": _long(-1, INT64_MIN),
    "log.retention.check.interval.ms": _long(300_000, 1),
    "log.retention.hours": Property(168, _retention(INT32_MAX), INT),
    "log.retention.minutes": Property(10_080, _retention(INT32_MAX), INT),
    "log.retention.ms": Property(604_800_000, _retention(INT64_MAX), LONG),
    "log.roll.hours": _int(168, 1),
    "log.roll.ms": _long(604_800_000, 1),
    "log.segment.bytes": _int(1 << 30, SEGMENT_BYTES_MIN),
    # Unlike Kafka: 10,000; Kafka has no limit.
    MAX_CONNECTIONS: _int(10_000, 0),
    MAX_PER_IP: _int(INT32_MAX, 0),
    # Unlike Kafka: IP addresses only; Kafka also looks up host names.
    MAX_PER_IP_OVERRIDES: _string("", _counts_by_address),
    "max.incremental.fetch.session.cache.slots": _int(1_000),
    "message.max.bytes": _int(1_048_588),
    "min.insync.replicas": _int(1, 1),
    "node.id": _int(1, 0),
    # Unlike Kafka: at most PARTITIONS_MAX, as a topic with more partitions cannot be created.
    "num.partitions": _int(1, 1, PARTITIONS_MAX),
    "offset.metadata.max.bytes": _int(4_096),
    "offsets.retention.check.interval.ms": _long(600_000, 1),
    "offsets.retention.minutes": _int(10_080, 1),
    "offsets.topic.num.partitions": _int(50, 1, PARTITIONS_MAX),
    # Unlike Kafka: with one node 1, not 3, whatever value is given; the same for transaction.state.log.replication.factor.
    "offsets.topic.replication.factor": _short(1, 1),
    # Unlike Kafka: a size that no topic may have is refused at startup; Kafka starts, and can never create the topic.
    "offsets.topic.segment.bytes": _int(104_857_600, SEGMENT_BYTES_MIN),
    "producer.id.expiration.check.interval.ms": _int(600_000, 1),
    "producer.id.expiration.ms": _int(86_400_000, 1),
    # Unlike Kafka: 512 MiB; Kafka has no limit.
    "queued.max.request.bytes": _long(512 << 20, -1),
    # Unlike Kafka: RackAwareReplicaSelector is the only class that can be used.
    "replica.selector.class": _string(""),
    # Unlike Kafka: GSSAPI, the default, is not served.
    "sasl.enabled.mechanisms": _list("GSSAPI", _text),
    "sasl.server.max.receive.size": _int(524_288),
    # Unlike Kafka: 1,024, not 50, so that many clients that connect at the same time do not wait a second.
    "socket.listen.backlog.size": _int(1_024, 1),
    "socket.request.max.bytes": _int(104_857_600, 1),
    "ssl.client.auth": _string("none", _one_of("none", "requested", "required")),
    "ssl.enabled.protocols": _list("TLSv1.2,TLSv1.3", _list_of("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")),
    "ssl.key.password": _password(),
    "ssl.keystore.certificate.chain": _password(),
    "ssl.keystore.key": _password(),
    "ssl.keystore.location": _string(""),
    "ssl.keystore.password": _password(),
    "ssl.keystore.type": _string("JKS", _one_of("JKS", "PKCS12", "PEM")).without_effect(),
    "ssl.principal.mapping.rules": _string("DEFAULT"),
    "ssl.truststore.certificates": _password(),
    "ssl.truststore.location": _string(""),
    "ssl.truststore.password": _password(),
    "ssl.truststore.type": _string("JKS", _one_of("JKS", "PKCS12", "PEM")).without_effect(),
    "stuntbroker.cluster.id": _string("", _visible),
    # Transactional ids; PREFIX* stands for all ids with the prefix.
    "stuntbroker.deny.two.phase.commit": _list("", _ids_or_prefixes),
    "stuntbroker.groups.max.bytes": _long(256 << 20, 1),
    "stuntbroker.initial.producer.epoch": _int(0, 0, EPOCH_LAST),
    "stuntbroker.initial.producer.id": _long(0, 0, 2**62),
    "stuntbroker.jaas.file": _string(""),
    "stuntbroker.mapped.address": _string("", _address),
    "stuntbroker.mapped.address.wait.ms": _int(0, 0),
    "stuntbroker.nodes": _int(1, 1, NODES_MAX),
    # A release for all listeners, or NAME:RELEASE for some of them.
    "stuntbroker.personality": _list(RELEASE, _by_listener(*OLDER_RELEASES, RELEASE)),
    # The principal of clients that do not authenticate; USER for all listeners, or NAME:USER for some of them.
    "stuntbroker.principal": _string("", _permissions(lambda module: module.problem_of_principals)),
    # A profile for all listeners, or NAME:PROFILE for some of them.
    "stuntbroker.profile": _list(KAFKA, _by_listener(KAFKA, KIP_588, KIP_447_DRAFT)),
    # any: a replication factor above the number of nodes is accepted, with fewer copies; strict: it is refused, as in Kafka.
    "stuntbroker.replication.factor": _string("strict", _one_of("strict", "any")),
    "stuntbroker.users": _password(_users),
    "stuntbroker.write.buffer.bytes": _int(4 << 20, 65_536),
    "super.users": _string("", _permissions(lambda module: module.problem_of_super_users)),
    # Unlike Kafka: 100, not 10000, so that a transaction is aborted soon after its time-out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": _int(100, 1),
    "transaction.max.timeout.ms": _int(900_000, 1),
    "transaction.partition.verification.enable": _bool(True),
    # Unlike Kafka: 100, not 3600000, so that a transactional id expires soon after its expiration time.
    "transaction.remove.expired.transaction.cleanup.interval.ms": _int(100, 1),
    "transaction.state.log.num.partitions": _int(50, 1, PARTITIONS_MAX),
    "transaction.state.log.replication.factor": _short(1, 1),
    "transaction.state.log.segment.bytes": _int(104_857_600, SEGMENT_BYTES_MIN),
    "transaction.two.phase.commit.enable": _bool(True),  # Unlike Kafka: False there.
    # Unlike Kafka: also a property; in Kafka it is only the level of a feature (features.py).
    "transaction.version": _int(2, 0, 2),
    "transactional.id.expiration.ms": _int(604_800_000, 1),
}

BROKER: Final = {name: prop._replace(name=name, is_dynamic=name in DYNAMIC) for name, prop in _BROKER.items()}
"""Every property that a broker knows."""

INTERNAL_REPLICATION_FACTORS: Final = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")

IN_OTHER_UNITS: Final = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
}
"""Property -> the properties used while it is not set, in order of precedence, and their units in milliseconds."""

_TOPIC: Final[dict[str, tuple[Property, str | None]]] = {
    "cleanup.policy": (_list("delete", POLICY), "log.cleanup.policy"),
    "compression.gzip.level": (Property(-1, _gzip_level, INT).without_effect(), "compression.gzip.level"),
    "compression.lz4.level": (_int(9, 1, 17).without_effect(), "compression.lz4.level"),
    "compression.type": (_string("producer", COMPRESSION), "compression.type"),
    "compression.zstd.level": (_int(3, -131_072, 22).without_effect(), "compression.zstd.level"),
    "delete.retention.ms": (_long(86_400_000), "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": (_long(60_000).without_effect(), "log.segment.delete.delay.ms"),
    "flush.messages": (_long(INT64_MAX, 1).without_effect(), "log.flush.interval.messages"),
    "flush.ms": (_long(INT64_MAX).without_effect(), None),
    "follower.replication.throttled.replicas": (_list("", _replicas).without_effect(), None),
    "index.interval.bytes": (_int(4_096).without_effect(), "log.index.interval.bytes"),
    # Unlike Kafka: at least 1; Kafka also accepts 0 and negative numbers, with which nothing can be written.
    INTERNAL_SEGMENT_BYTES: (Property(None, _number(1, INT32_MAX), INT), None),
    "leader.replication.throttled.replicas": (_list("", _replicas).without_effect(), None),
    "local.retention.bytes": (_long(-2, -2).without_effect(), "log.local.retention.bytes"),
    "local.retention.ms": (_long(-2, -2).without_effect(), "log.local.retention.ms"),
    "max.compaction.lag.ms": (_long(INT64_MAX, 1).without_effect(), "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": (_int(1_048_588), "message.max.bytes"),
    "message.timestamp.after.max.ms": (_long(3_600_000), "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": (_long(INT64_MAX), "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": (_string("CreateTime", TIME_TYPE), "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": (Property(0.5, _ratio, DOUBLE), "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": (_long(0), "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": (_int(1, 1), "min.insync.replicas"),
    "preallocate": (_bool(False).without_effect(), "log.preallocate"),
    "remote.log.copy.disable": (_bool(False).without_effect(), None),
    "remote.log.delete.on.disable": (_bool(False).without_effect(), None),
    "remote.storage.enable": (Property(False, _switched_off, BOOLEAN).without_effect(), None),
    "retention.bytes": (_long(-1, INT64_MIN), "log.retention.bytes"),
    "retention.ms": (_long(604_800_000, -1), "log.retention.ms"),
    "segment.bytes": (_int(1 << 30, SEGMENT_BYTES_MIN), "log.segment.bytes"),
    "segment.index.bytes": (_int(10_485_760, 4).without_effect(), "log.index.size.max.bytes"),
    "segment.jitter.ms": (_long(0).without_effect(), None),
    "segment.ms": (_long(604_800_000, 1), "log.roll.ms"),
    "unclean.leader.election.enable": (_bool(False).without_effect(), "unclean.leader.election.enable"),
}

TOPIC: Final = {
    name: (prop._replace(name=name, is_of_topic=True), broker_name) for name, (prop, broker_name) in _TOPIC.items()
}
"""Configuration of a topic: the property, and the broker property (not always known here) whose value is its default."""
OF_TOPICS: Final = {name: prop for prop, name in TOPIC.values() if name is not None}
"""Broker properties that are defaults of topic properties."""

WITHOUT_DEFAULT: Final = frozenset(
    {
        "advertised.listeners",
        "broker.rack",
        "controller.listener.names",
        "listeners",
        "replica.selector.class",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.ms",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "stuntbroker.jaas.file",
        "stuntbroker.users",
        "super.users",
    }
)
"""Properties that DescribeConfigs shows as null while they are not set.

The times have their defaults in the properties in hours, as in Kafka. The addresses are derived from `--host`, `--port` and
the address that a client connected to.
"""


def read_property(known: Mapping[str, Property], name: str, text: str) -> Any:
    """Return the value that `text` stands for. Raises ConfigError, which names the property."""
    try:
        return known[name].read(text.strip())
    except ConfigError as fault:
        raise ConfigError(f"{name}: {fault}") from None


def show(value: Any) -> str:
    """Return a value as Kafka prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def check_topic_config(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Validate a topic's configuration; return it as it is stored. Raises ConfigError with Kafka's messages."""
    kept = {}
    for name, text in configs.items():
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        try:
            TOPIC[name][0].read(text.strip())
        except ConfigError as fault:
            raise ConfigError(f"Invalid value {text} for configuration {name}: {fault}") from None
        kept[name] = text  # As sent, including blanks.
    low, high = (
        TOPIC[name][0].read(kept[name].strip()) if name in kept else TOPIC[name][0].default
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    return kept
