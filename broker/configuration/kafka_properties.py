"""Apache Kafka's broker properties. Loaded only when a property is given or shown that BrokerConfig does not use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stuntbroker.broker.configuration.dynamic_properties import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
)


class UnusedProperty(NamedTuple):
    """A property without effect here: its ConfigType, and its default as Kafka shows it; None if it has none."""

    kind: int
    default: str | None


_UNUSED: Final = {
    BOOLEAN: """
    auto.leader.rebalance.enable=true controlled.shutdown.enable=true controller.quorum.auto.join.enable=false
    follower.fetch.last.tiered.offset.enable=false log.cleaner.enable=true log.preallocate=false
    remote.log.storage.system.enable=false sasl.oauthbearer.assertion.claim.jti.include=false ssl.allow.dn.changes=false
    ssl.allow.san.changes=false unclean.leader.election.enable=false
    """,
    STRING: """
    group.consumer.migration.policy=bidirectional inter.broker.listener.name
    metadata.log.dir metrics.recording.level=INFO
    remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix=rlmm.config.
    remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix=rsm.config.
    sasl.kerberos.kinit.cmd=/usr/bin/kinit sasl.kerberos.service.name sasl.mechanism.controller.protocol=GSSAPI
    sasl.mechanism.inter.broker.protocol=GSSAPI sasl.oauthbearer.assertion.algorithm=RS256
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name=scope sasl.oauthbearer.sub.claim.name=sub
    sasl.oauthbearer.token.endpoint.url security.inter.broker.protocol=PLAINTEXT security.providers
    ssl.endpoint.identification.algorithm=https ssl.keymanager.algorithm=SunX509
    ssl.protocol=TLSv1.3 ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm=PKIX
    """,
    INT: """
    alter.log.dirs.replication.quota.window.num=11 alter.log.dirs.replication.quota.window.size.seconds=1
    background.threads=10 broker.heartbeat.interval.ms=2000 broker.session.timeout.ms=9000 compression.gzip.level=-1
    compression.lz4.level=9 compression.zstd.level=3 connection.failed.authentication.delay.ms=100
    controller.quorum.append.linger.ms=25 controller.quorum.election.backoff.max.ms=1000
    controller.quorum.election.timeout.ms=1000 controller.quorum.fetch.max.bytes=1048576
    controller.quorum.fetch.snapshot.max.bytes=1048576 controller.quorum.fetch.timeout.ms=2000
    controller.quorum.request.timeout.ms=2000 controller.quorum.retry.backoff.ms=20 controller.quota.window.num=11
    controller.quota.window.size.seconds=1 controller.socket.timeout.ms=30000
    delete.records.purgatory.purge.interval.requests=1 fetch.purgatory.purge.interval.requests=1000
    group.consumer.assignment.interval.ms=1000 group.consumer.heartbeat.interval.ms=5000
    group.consumer.max.assignment.interval.ms=15000 group.consumer.max.heartbeat.interval.ms=15000
    group.consumer.max.session.timeout.ms=60000 group.consumer.max.size=2147483647
    group.consumer.min.assignment.interval.ms=0 group.consumer.min.heartbeat.interval.ms=5000
    group.consumer.min.session.timeout.ms=45000 group.consumer.session.timeout.ms=45000
    group.coordinator.append.linger.ms=-1 group.coordinator.background.threads=2
    group.coordinator.cached.buffer.max.bytes=1048588 group.coordinator.threads=4
    group.share.assignment.interval.ms=1000 group.share.delivery.count.limit=5 group.share.heartbeat.interval.ms=5000
    group.share.max.assignment.interval.ms=15000 group.share.max.delivery.count.limit=10
    group.share.max.heartbeat.interval.ms=15000 group.share.max.partition.max.record.locks=4000
    group.share.max.record.lock.duration.ms=60000 group.share.max.session.timeout.ms=60000
    group.share.max.share.sessions=2000 group.share.max.size=200 group.share.min.assignment.interval.ms=0
    group.share.min.delivery.count.limit=2 group.share.min.heartbeat.interval.ms=5000
    group.share.min.partition.max.record.locks=100 group.share.min.record.lock.duration.ms=15000
    group.share.min.session.timeout.ms=45000 group.share.partition.max.record.locks=2000
    group.share.record.lock.duration.ms=30000 group.share.session.timeout.ms=45000
    group.streams.assignment.interval.ms=1000 group.streams.heartbeat.interval.ms=5000
    group.streams.initial.rebalance.delay.ms=3000 group.streams.max.assignment.interval.ms=15000
    group.streams.max.heartbeat.interval.ms=15000 group.streams.max.session.timeout.ms=60000
    group.streams.max.size=2147483647 group.streams.max.standby.replicas=2 group.streams.min.assignment.interval.ms=0
    group.streams.min.heartbeat.interval.ms=5000 group.streams.min.session.timeout.ms=45000
    group.streams.num.standby.replicas=0 group.streams.session.timeout.ms=45000
    initial.broker.registration.timeout.ms=60000 kafka.metrics.polling.interval.secs=10
    log.cleaner.io.buffer.size=524288 log.cleaner.threads=1 log.flush.offset.checkpoint.interval.ms=60000
    log.flush.start.offset.checkpoint.interval.ms=60000 log.index.interval.bytes=4096 log.index.size.max.bytes=10485760
    log.roll.jitter.hours=0 max.connection.creation.rate=2147483647
    max.request.partition.size.limit=2000 metadata.log.segment.bytes=1073741824 metadata.max.idle.interval.ms=500
    metrics.num.samples=2 num.io.threads=8 num.network.threads=3 num.recovery.threads.per.data.dir=2
    num.replica.alter.log.dirs.threads num.replica.fetchers=1 offsets.commit.timeout.ms=5000
    offsets.load.buffer.size=5242880 offsets.topic.compression.codec=0 producer.purgatory.purge.interval.requests=1000
    queued.max.requests=500 quota.window.num=11 quota.window.size.seconds=1 remote.fetch.max.wait.ms=500
    remote.log.manager.copier.thread.pool.size=10 remote.log.manager.copy.quota.window.num=11
    remote.log.manager.copy.quota.window.size.seconds=1 remote.log.manager.expiration.thread.pool.size=10
    remote.log.manager.fetch.quota.window.num=11 remote.log.manager.fetch.quota.window.size.seconds=1
    remote.log.manager.follower.thread.pool.size=2 remote.log.manager.thread.pool.size=2
    remote.log.metadata.custom.metadata.max.bytes=128 remote.log.reader.max.pending.tasks=100
    remote.log.reader.threads=10 replica.fetch.backoff.ms=1000 replica.fetch.max.bytes=1048576 replica.fetch.min.bytes=1
    replica.fetch.response.max.bytes=10485760 replica.fetch.wait.max.ms=500 replica.socket.receive.buffer.bytes=65536
    replica.socket.timeout.ms=30000 replication.quota.window.num=11 replication.quota.window.size.seconds=1
    request.timeout.ms=30000 sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.oauthbearer.assertion.claim.exp.seconds=300 sasl.oauthbearer.assertion.claim.nbf.seconds=60
    sasl.oauthbearer.clock.skew.seconds=30 share.coordinator.append.linger.ms=-1
    share.coordinator.cached.buffer.max.bytes=1048588 share.coordinator.load.buffer.size=5242880
    share.coordinator.snapshot.update.records.per.snapshot=500 share.coordinator.state.topic.compression.codec=0
    share.coordinator.state.topic.num.partitions=50 share.coordinator.state.topic.segment.bytes=104857600
    share.coordinator.threads=1 share.coordinator.write.timeout.ms=5000
    share.fetch.purgatory.purge.interval.requests=1000 socket.receive.buffer.bytes=102400
    socket.send.buffer.bytes=102400 telemetry.max.bytes=1048576 transaction.state.log.load.buffer.size=5242880
    transaction.state.log.min.isr=2
    """,
    SHORT: """
    sasl.login.refresh.buffer.seconds=300 sasl.login.refresh.min.period.seconds=60
    share.coordinator.state.topic.min.isr=2 share.coordinator.state.topic.replication.factor=3
    """,
    LONG: """
    delegation.token.expiry.check.interval.ms=3600000 delegation.token.expiry.time.ms=86400000
    delegation.token.max.lifetime.ms=604800000 leader.imbalance.check.interval.seconds=300
    log.cleaner.dedupe.buffer.size=134217728 log.cleaner.max.compaction.lag.ms=9223372036854775807
    log.cleaner.min.compaction.lag.ms=0 log.dir.failure.timeout.ms=30000 log.flush.interval.messages=9223372036854775807
    log.flush.interval.ms log.flush.scheduler.interval.ms=9223372036854775807 log.local.retention.bytes=-2
    log.local.retention.ms=-2 log.message.timestamp.after.max.ms=3600000
    log.message.timestamp.before.max.ms=9223372036854775807 log.roll.jitter.ms log.segment.delete.delay.ms=60000
    metadata.log.max.record.bytes.between.snapshots=20971520 metadata.log.max.snapshot.interval.ms=3600000
    metadata.log.segment.ms=604800000 metadata.max.retention.bytes=104857600 metadata.max.retention.ms=604800000
    metrics.sample.window.ms=30000 remote.list.offsets.request.timeout.ms=30000
    remote.log.index.file.cache.total.size.bytes=1073741824
    remote.log.manager.copy.max.bytes.per.second=9223372036854775807
    remote.log.manager.fetch.max.bytes.per.second=9223372036854775807 remote.log.manager.task.interval.ms=30000
    replica.high.watermark.checkpoint.interval.ms=5000 replica.lag.time.max.ms=30000
    sasl.kerberos.min.time.before.relogin=60000 sasl.login.retry.backoff.max.ms=10000 sasl.login.retry.backoff.ms=100
    sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000 sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100 socket.connection.setup.timeout.max.ms=30000
    socket.connection.setup.timeout.ms=10000
    """,
    DOUBLE: """
    log.cleaner.io.buffer.load.factor=0.9 log.cleaner.io.max.bytes.per.second=1.7976931348623157E308
    sasl.kerberos.ticket.renew.jitter=0.05 sasl.kerberos.ticket.renew.window.factor=0.8
    sasl.login.refresh.window.factor=0.8 sasl.login.refresh.window.jitter=0.05
    """,
    LIST: """
    config.providers= controller.quorum.bootstrap.servers= controller.quorum.voters= cordoned.log.dirs=
    early.start.listeners group.consumer.assignors=uniform,range
    group.coordinator.rebalance.protocols=classic,consumer,streams group.share.assignors=simple kafka.metrics.reporters=
    log.dir=/tmp/kafka-logs log.dirs metric.reporters=org.apache.kafka.common.metrics.JmxReporter process.roles
    sasl.kerberos.principal.to.local.rules=DEFAULT sasl.oauthbearer.expected.audience= ssl.cipher.suites=
    """,
    CLASS: """
    alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
    principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    sasl.server.callback.handler.class ssl.engine.factory.class
    """,
    PASSWORD: """
    delegation.token.secret.key sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.client.credentials.client.secret
    """,
}
"""Type -> NAME=DEFAULT, or NAME without a default, of the properties that have no effect here, as a running Kafka shows them."""
_OTHERS: Final = frozenset(
    """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms advertised.listeners
    authorizer.class.name auto.create.topics.enable broker.id broker.rack compression.type connections.max.idle.ms
    connections.max.reauth.ms controller.listener.names controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms default.replication.factor delete.topic.enable fetch.max.bytes
    follower.replication.throttled.rate group.consumer.regex.refresh.interval.ms group.initial.rebalance.delay.ms
    group.max.session.timeout.ms group.max.size group.min.session.timeout.ms group.share.initialize.retry.interval.ms
    group.share.persister.class.name internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes leader.replication.throttled.rate listener.security.protocol.map listeners
    log.cleaner.backoff.ms log.cleaner.delete.retention.ms log.cleaner.min.cleanable.ratio log.cleanup.policy
    log.initial.task.delay.ms log.message.timestamp.type log.retention.bytes log.retention.check.interval.ms
    log.retention.hours log.retention.minutes log.retention.ms log.roll.hours log.roll.ms log.segment.bytes
    max.connections max.connections.per.ip max.connections.per.ip.overrides max.incremental.fetch.session.cache.slots
    message.max.bytes min.insync.replicas node.id num.partitions offset.metadata.max.bytes
    offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.check.interval.ms
    producer.id.expiration.ms queued.max.request.bytes remote.log.index.file.cache.ttl.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter replica.alter.log.dirs.io.max.bytes.per.second replica.selector.class
    sasl.enabled.mechanisms sasl.server.max.receive.size server.max.startup.time.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.state.topic.prune.interval.ms
    socket.listen.backlog.size socket.request.max.bytes ssl.client.auth ssl.enabled.protocols ssl.key.password
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.principal.mapping.rules ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.num.partitions transaction.state.log.replication.factor transaction.state.log.segment.bytes
    transaction.two.phase.commit.enable transactional.id.expiration.ms unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
    """.split()  # noqa: SIM905
)
"""The properties that have an effect here, or that Kafka does not show."""


def _definitions() -> dict[str, UnusedProperty]:
    definitions = {}
    for kind, texts in _UNUSED.items():
        for text in texts.split():
            name, separator, default = text.partition("=")
            definitions[name] = UnusedProperty(kind, default if separator else None)
    return definitions


UNUSED: Final = _definitions()
"""Properties without effect here that Kafka shows, in the order of their types."""
KAFKA_4_3_1: Final = _OTHERS.union(UNUSED)
"""All properties that Kafka's configuration defines, and the three throttles that can only be set dynamically."""

OUTSIDE_THE_DEFINITION: Final = frozenset(
    """
    advertised.host.name advertised.port allow.everyone.if.no.acl.found broker.id.generation.enable control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable group.coordinator.new.enable group.share.enable host.name inter.broker.protocol.version
    leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms offsets.commit.required.acks port
    quota.consumer.default quota.producer.default replica.lag.max.messages reserved.broker.max.id super.users
    """.split()  # noqa: SIM905
)
"""Properties of older versions, including those with ZooKeeper, and properties that Kafka's own plug-ins read."""

FAMILIES: Final = (
    "config.providers.",
    "confluent.",
    "listener.name.",
    "metrics.jmx.",
    "password.encoder.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "ssl.",
    "zookeeper.",
)
"""Prefixes of property names with variable parts."""


def is_kafka_property(name: str) -> bool:
    """Whether Kafka 4.3.1 has a broker property of this name."""
    return name in KAFKA_4_3_1 or name in OUTSIDE_THE_DEFINITION or name.startswith(FAMILIES)


def nearest_property(name: str, known_here: Iterable[str]) -> str | None:
    """Return the most similar property name, of Kafka's and of `known_here`; None if no name is similar."""
    from difflib import get_close_matches

    spelt = name.strip().lower().replace("_", ".")
    # A prefix that all names share must not make them similar.
    prefix = "stuntbroker." if spelt.startswith("stuntbroker.") else ""
    known = sorted(prop.removeprefix(prefix) for prop in KAFKA_4_3_1.union(known_here) if prop.startswith(prefix))
    matches = get_close_matches(spelt.removeprefix(prefix), known, n=1)
    return prefix + matches[0] if matches else None
