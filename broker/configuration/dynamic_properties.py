"""Dynamic broker properties of Apache Kafka 4.3.1: names, types and scopes, as reported by a running Kafka.

All other properties are read-only. Properties without effect here are accepted, stored and described like the others.
"""

from __future__ import annotations

from typing import Final

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)
"""ConfigType of DescribeConfigs."""

_CLUSTER_WIDE: Final = {
    INT: """
    background.threads compression.gzip.level compression.lz4.level compression.zstd.level
    group.consumer.assignment.interval.ms group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
    group.streams.assignment.interval.ms log.cleaner.io.buffer.size log.cleaner.threads log.index.interval.bytes
    log.index.size.max.bytes log.segment.bytes max.connection.creation.rate max.connections max.connections.per.ip
    message.max.bytes min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.fetchers producer.id.expiration.ms remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
    remote.log.manager.expiration.thread.pool.size remote.log.manager.follower.thread.pool.size remote.log.reader.threads
    share.coordinator.cached.buffer.max.bytes
    """,
    STRING: """
    compression.type log.message.timestamp.type max.connections.per.ip.overrides
    """,
    LIST: """
    config.providers log.cleanup.policy metric.reporters
    """,
    BOOLEAN: """
    follower.fetch.last.tiered.offset.enable log.preallocate transaction.partition.verification.enable
    unclean.leader.election.enable
    """,
    LONG: """
    follower.replication.throttled.rate leader.replication.throttled.rate log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.max.compaction.lag.ms
    log.cleaner.min.compaction.lag.ms log.flush.interval.messages log.flush.interval.ms log.local.retention.bytes
    log.local.retention.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.retention.bytes
    log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.delete.delay.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.fetch.max.bytes.per.second replica.alter.log.dirs.io.max.bytes.per.second
    """,
    DOUBLE: """
    log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio
    """,
}
"""Type -> properties that can be set for all brokers, or for one."""
_PER_BROKER: Final = {
    LIST: """
    cordoned.log.dirs listeners sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules ssl.cipher.suites
    ssl.enabled.protocols
    """,
    STRING: """
    listener.security.protocol.map sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.mechanism.inter.broker.protocol
    ssl.client.auth ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.keystore.location ssl.keystore.type
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location
    ssl.truststore.type
    """,
    CLASS: """
    principal.builder.class ssl.engine.factory.class
    """,
    PASSWORD: """
    sasl.jaas.config ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
    ssl.truststore.certificates ssl.truststore.password
    """,
    LONG: """
    sasl.kerberos.min.time.before.relogin
    """,
    DOUBLE: """
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter
    """,
    SHORT: """
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    """,
}
"""Type -> properties that can be set for one broker only."""


def _by_name(table: dict[int, str]) -> dict[str, int]:
    return {name: number for number, names in table.items() for name in names.split()}


CLUSTER_WIDE: Final = _by_name(_CLUSTER_WIDE)
"""Name -> type."""
PER_BROKER: Final = _by_name(_PER_BROKER)
OURS: Final = {"stuntbroker.mapped.address": STRING}
"""Properties that Kafka does not have; they can be set for all brokers, or for one."""
DYNAMIC: Final = CLUSTER_WIDE | PER_BROKER | OURS
ONLY_PER_LISTENER: Final = frozenset(
    [
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
)
"""Properties that are accepted only with the prefix `listener.name.<name>.`"""
_AT_LEAST: Final = {
    0: """
    follower.replication.throttled.rate group.consumer.assignment.interval.ms group.share.assignment.interval.ms
    group.streams.assignment.interval.ms leader.replication.throttled.rate log.cleaner.io.buffer.size log.roll.jitter.ms
    replica.alter.log.dirs.io.max.bytes.per.second
    """,
    1: """
    background.threads log.cleaner.threads num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.fetchers remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size remote.log.reader.threads
    """,
    524_288: "group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes",
    1_048_576: "log.cleaner.dedupe.buffer.size",
}
AT_LEAST: Final = _by_name(_AT_LEAST)
"""Number without effect here -> its smallest value."""
CONNECTION_CREATION_RATE: Final = "max.connection.creation.rate"
"""May be 0 at the start, and not while the broker runs."""
ASSIGNMENT_INTERVAL_MS_MAX: Final = 15_000
"""Largest interval between assignments that may be set while the broker runs."""
