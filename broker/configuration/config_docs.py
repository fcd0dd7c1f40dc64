"""Documentation of every property, as DescribeConfigs gives it. Loaded only when a request asks for documentation.

The texts are written for this broker: each says what the property does here, and in which unit. "No effect here" begins the
sentence about a property that is accepted, stored and described and changes nothing. docs/properties.md is generated from these
texts.
"""

from __future__ import annotations

from typing import Final

UNUSED_DOC: Final = "No effect here."
"""Documentation of Kafka's other broker properties."""
UNUSED_DOCS: Final = {"log.dirs": "No effect here: shows the data folder (--data-dir)."}
TOPIC_DOCS: Final[dict[str, str]] = {
    "cleanup.policy":
        "How old records leave the log: delete removes whole segments by age and size, compact keeps the last record of each "
        "key, and both may be combined with a comma. With an empty list every record stays.",
    "compression.gzip.level":
        "Level of gzip, 1 to 9, or -1 for the default of the library. No effect here: the broker does not recompress batches.",
    "compression.lz4.level":
        "Level of lz4, 1 to 17. No effect here: the broker does not recompress batches.",
    "compression.type":
        "Codec of the topic: producer, uncompressed, gzip, snappy, lz4 or zstd. Every batch keeps the codec of its producer. "
        "With zstd, Fetch below version 10 gets UNSUPPORTED_COMPRESSION_TYPE; no other value has an effect here.",
    "compression.zstd.level":
        "Level of zstd, -131072 to 22. No effect here: the broker does not recompress batches.",
    "delete.retention.ms":
        "Age in milliseconds at which compaction removes a tombstone, which is a record with a key and a null value. The age "
        "counts from the timestamp of the tombstone.",
    "file.delete.delay.ms":
        "Milliseconds between the removal of a segment from the log and the deletion of its files. No effect here: the files "
        "are deleted at once.",
    "flush.messages":
        "Number of records after which the log is synced to the disk. No effect here: serve --durability decides when the "
        "broker syncs.",
    "flush.ms":
        "Milliseconds after which the log is synced to the disk. No effect here: serve --durability decides when the broker "
        "syncs.",
    "follower.replication.throttled.replicas":
        "Follower replicas with limited replication traffic, as PARTITION:BROKER pairs, or * for all. No effect here: there are "
        "no followers.",
    "index.interval.bytes":
        "Bytes of log between two entries of the offset index. No effect here: the interval is always 4096 bytes.",
    "internal.segment.bytes":
        "Size of a segment file in bytes, instead of segment.bytes and without its minimum. Shown only if it is set.",
    "leader.replication.throttled.replicas":
        "Leader replicas with limited replication traffic, as PARTITION:BROKER pairs, or * for all. No effect here: there are "
        "no followers.",
    "local.retention.bytes":
        "Bytes of a partition that stay on the local disk of a tiered topic; -2 means the value of retention.bytes. No effect "
        "here: there is no tiered storage.",
    "local.retention.ms":
        "Milliseconds that records of a tiered topic stay on the local disk; -2 means the value of retention.ms. No effect here: "
        "there is no tiered storage.",
    "max.compaction.lag.ms":
        "Milliseconds after which a record must be compacted. No effect here: the amount of new data decides when a log is "
        "cleaned. A value below min.compaction.lag.ms is refused.",
    "max.message.bytes":
        "Size limit of a batch in bytes, as the producer compressed it. A larger batch gets MESSAGE_TOO_LARGE.",
    "message.timestamp.after.max.ms":
        "Milliseconds by which a timestamp of a producer may be ahead of the clock of the broker. A batch beyond the limit gets "
        "INVALID_TIMESTAMP. Topics with LogAppendTime have no such limit.",
    "message.timestamp.before.max.ms":
        "Milliseconds by which a timestamp of a producer may be behind the clock of the broker. A batch beyond the limit gets "
        "INVALID_TIMESTAMP. Topics with LogAppendTime have no such limit.",
    "message.timestamp.type":
        "Origin of the timestamps: CreateTime keeps those of the producer, LogAppendTime replaces them with the time at which "
        "the broker appended the batch.",
    "min.cleanable.dirty.ratio":
        "Share of not yet compacted bytes in the closed segments, 0 to 1, above which they are cleaned. A log that nobody writes "
        "to is also cleaned, with its active segment, when more than half of it and more than 1 KiB is new.",
    "min.compaction.lag.ms":
        "Milliseconds for which a record is safe from compaction. A segment is compacted only when its newest record, and that "
        "of every earlier segment, is older.",
    "min.insync.replicas":
        "In-sync replicas that Produce with acks=all needs. It has an effect with several nodes (stuntbroker.nodes): a replica "
        "whose node is stopped is not in sync.",
    "preallocate":
        "Whether a new segment file gets its full size at once. No effect here: files grow as records arrive.",
    "remote.log.copy.disable":
        "Whether segments are no longer copied to remote storage. No effect here: there is no tiered storage.",
    "remote.log.delete.on.disable":
        "Whether the remote data of a topic is deleted when its tiered storage is switched off. No effect here: there is no "
        "tiered storage.",
    "remote.storage.enable":
        "Whether the topic uses tiered storage. No effect here: there is no tiered storage, and true is refused.",
    "retention.bytes":
        "Size in bytes above which a partition loses its oldest segments, if cleanup.policy contains delete. A negative value "
        "means no limit. Records from the last stable offset on always stay.",
    "retention.ms":
        "Age in milliseconds above which a segment is deleted, if cleanup.policy contains delete; the newest record of the "
        "segment counts. -1 means no limit. Records from the last stable offset on always stay.",
    "segment.bytes":
        "Size of a segment file in bytes, at least 1048576. The next batch that would exceed the size begins a new segment. A "
        "batch that is larger than a segment gets RECORD_LIST_TOO_LARGE.",
    "segment.index.bytes":
        "Size limit of an index file in bytes. No effect here: an index has the size that its segment needs.",
    "segment.jitter.ms":
        "Upper limit in milliseconds of a random time by which segments roll early. No effect here: there is no jitter.",
    "segment.ms":
        "Time span of a segment in milliseconds. A batch whose timestamp is more than this later than the first timestamp of "
        "the segment begins a new segment.",
    "unclean.leader.election.enable":
        "Whether a replica that is out of sync may become leader. No effect here: the replicas of a partition share one log.",
}  # fmt: skip
"""Topic property -> its documentation."""

BROKER_DOCS: Final[dict[str, str]] = {
    "add.partitions.to.txn.retry.backoff.max.ms":
        "Longest wait in milliseconds before the broker repeats the verification of a transaction. No effect here: the "
        "transaction coordinator is in the same process and answers the first time.",
    "add.partitions.to.txn.retry.backoff.ms":
        "Wait in milliseconds before the broker repeats the verification of a transaction. No effect here: the transaction "
        "coordinator is in the same process and answers the first time.",
    "advertised.listeners":
        "Addresses that the broker gives to clients, as NAME://host:port with the names of listeners. A client gets the address "
        "of the listener that it connected to; if there is none, the address that it connected to.",
    "allow.everyone.if.no.acl.found":
        "Whether everybody may use a resource for which there is no ACL. Only with authorizer.class.name.",
    "authorizer.class.name":
        "The authorizer: org.apache.kafka.metadata.authorizer.StandardAuthorizer (or the class of an older release) lets ACLs "
        "decide on every request; without it, only stuntbroker.deny.two.phase.commit denies something; docs/how-to/acls.md.",
    "auto.create.topics.enable":
        "Whether Metadata creates a topic that does not exist, if the client allows it.",
    "broker.id":
        "Older name of node.id. It counts only while node.id is not set.",
    "broker.rack":
        "Rack of the broker in Metadata. With several nodes (stuntbroker.nodes), comma-separated racks, one for each node in "
        "turn.",
    "compression.type":
        "Default of the topic property compression.type: producer, uncompressed, gzip, snappy, lz4 or zstd. The broker never "
        "recompresses. With zstd, Fetch below version 10 gets UNSUPPORTED_COMPRESSION_TYPE.",
    "connections.max.reauth.ms":
        "Longest session of an authenticated client in milliseconds; 0 for no limit. A client that has not authenticated again "
        "by then (KIP-368) loses its connection with its next request.",
    "connections.max.idle.ms":
        "Milliseconds without a request after which the broker closes a connection. A negative value means never. It is "
        "closed late by up to a fifth of this time, and by 20 seconds at most.",
    "controller.listener.names":
        "Comma-separated names of entries of listeners that belong to a controller. The broker does not open them: it has no "
        "controller listener.",
    "default.replication.factor":
        "Replication factor of a topic whose creator gives none. The default is 3, or the number of nodes when that is less. "
        "A value above the number of nodes is refused at the start, unless stuntbroker.replication.factor is any.",
    "delete.topic.enable":
        "Whether DeleteTopics deletes topics. If not, it answers TOPIC_DELETION_DISABLED.",
    "fetch.max.bytes":
        "Upper limit in bytes of the records in one response to Fetch. The first batch is returned whatever its size.",
    "group.initial.rebalance.delay.ms":
        "Milliseconds for which the first rebalance of an empty group waits for more members. Each new member prolongs the "
        "wait, up to the rebalance time-out.",
    "group.max.session.timeout.ms":
        "Longest session time-out of a group member in milliseconds. JoinGroup with a longer one gets INVALID_SESSION_TIMEOUT.",
    "group.max.size":
        "Number of members that a group can have. A further member gets GROUP_MAX_SIZE_REACHED.",
    "group.min.session.timeout.ms":
        "Shortest session time-out of a group member in milliseconds. JoinGroup with a shorter one gets "
        "INVALID_SESSION_TIMEOUT.",
    "listener.security.protocol.map":
        "Security protocol of each listener name, as NAME:PROTOCOL pairs. HOST, EXTERNAL, INTERNAL and DOCKER are PLAINTEXT "
        "without an entry.",
    "listeners":
        "Addresses to listen on, as NAME://host:port, such as PLAINTEXT://localhost:9092. The options --host and --port win over "
        "a single one. While none is given, the broker listens on localhost:9092.",
    "log.cleaner.backoff.ms":
        "Milliseconds between two searches for logs that need compaction.",
    "log.cleaner.delete.retention.ms":
        "Default of the topic property delete.retention.ms: age in milliseconds at which compaction removes a tombstone.",
    "log.cleaner.min.cleanable.ratio":
        "Default of the topic property min.cleanable.dirty.ratio: share of not yet compacted bytes above which a log is cleaned.",
    "log.cleanup.policy":
        "Default of the topic property cleanup.policy: delete, compact, or both with a comma.",
    "log.message.timestamp.type":
        "Default of the topic property message.timestamp.type: CreateTime or LogAppendTime.",
    "log.retention.bytes":
        "Default of the topic property retention.bytes: size in bytes above which a partition loses its oldest segments. A "
        "negative value means no limit.",
    "log.retention.check.interval.ms":
        "Milliseconds between two searches for segments that retention may delete.",
    "log.retention.hours":
        "Default of the topic property retention.ms, in hours. It counts only while neither log.retention.minutes nor "
        "log.retention.ms is set. -1 means no limit.",
    "log.retention.minutes":
        "Default of the topic property retention.ms, in minutes. It counts only while log.retention.ms is not set. -1 means no "
        "limit.",
    "log.retention.ms":
        "Default of the topic property retention.ms: age in milliseconds above which a segment is deleted. -1 means no limit. "
        "While it is not set, log.retention.minutes or log.retention.hours counts.",
    "log.roll.hours":
        "Default of the topic property segment.ms, in hours. It counts only while log.roll.ms is not set.",
    "log.roll.ms":
        "Default of the topic property segment.ms: time span of a segment in milliseconds. While it is not set, log.roll.hours "
        "counts.",
    "log.segment.bytes":
        "Default of the topic property segment.bytes: size of a segment file in bytes, at least 1048576.",
    "max.connections":
        "Number of connections that can be open at a time. A further one is closed at once. The broker lowers the number at "
        "the start, with a warning, if the process may not open that many files.",
    "max.connections.per.ip":
        "Number of connections from one IP address that can be open at a time, those of test tools included. A further one is "
        "closed at once. 0 is possible only with overrides.",
    "max.connections.per.ip.overrides":
        "Other numbers for some IP addresses: ADDRESS:NUMBER, separated by commas.",
    "max.incremental.fetch.session.cache.slots":
        "Number of incremental fetch sessions. When all are in use, a new session replaces the least recently used one. With 0 "
        "there are no sessions.",
    "message.max.bytes":
        "Default of the topic property max.message.bytes: size limit of a batch in bytes, as the producer compressed it.",
    "min.insync.replicas":
        "Default of the topic property min.insync.replicas. It has an effect with several nodes (stuntbroker.nodes): a replica "
        "whose node is stopped is not in sync.",
    "node.id":
        "Id of the broker in Metadata. It is stored in the data folder: a later start with another id is refused, and one "
        "without an id uses the stored one.",
    "num.partitions":
        "Number of partitions of a topic whose creator gives none, at most 10000.",
    "offset.metadata.max.bytes":
        "Length limit of the metadata of a committed offset, in UTF-16 code units. A longer text gets "
        "OFFSET_METADATA_TOO_LARGE.",
    "offsets.retention.check.interval.ms":
        "Milliseconds between two searches for expired offsets and for empty groups to remove.",
    "offsets.retention.minutes":
        "Minutes after which a committed offset expires. They count from when the group became empty. They count from the commit "
        "if the group never had members, or if its members are no longer subscribed to the topic.",
    "offsets.topic.num.partitions":
        "Number of partitions of __consumer_offsets, at most 10000. It is read when the topic is created.",
    "offsets.topic.replication.factor":
        "Replication factor of __consumer_offsets. The default is 3, or the number of nodes when that is less. A value above "
        "the number of nodes is accepted with a warning.",
    "offsets.topic.segment.bytes":
        "Size of a segment file of __consumer_offsets in bytes, at least 1048576. It is read when the topic is created.",
    "producer.id.expiration.check.interval.ms":
        "Milliseconds between two searches for producers that the partitions can forget.",
    "producer.id.expiration.ms":
        "Milliseconds without a record after which a partition forgets the sequence numbers of a producer. A producer with an "
        "open transaction is never forgotten.",
    "queued.max.request.bytes":
        "Memory in bytes for requests that are being received, on all connections together. -1 means no limit. A connection "
        "that needs more waits; requests up to 64 KiB are always received, and one larger request at a time may go beyond "
        "the limit.",
    "replica.selector.class":
        "Which replica a consumer is sent to: org.apache.kafka.common.replica.RackAwareReplicaSelector sends it to one in its "
        "own rack, if several nodes (stuntbroker.nodes) have racks. Any other value sends it to the leader.",
    "sasl.enabled.mechanisms":
        "SASL mechanisms of listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, which accepts unsecured "
        "tokens. With GSSAPI (Kerberos) in the list, a listener with SASL cannot start.",
    "sasl.server.max.receive.size":
        "Size limit in bytes of a request before the client is authenticated. A larger one closes its connection.",
    "socket.listen.backlog.size":
        "Number of connections that the system queues until the broker accepts them.",
    "socket.request.max.bytes":
        "Size limit of a request in bytes. A larger one closes its connection.",
    "ssl.client.auth":
        "Whether clients of a listener with TLS have to show a certificate: none, requested or required. The certificate's "
        "subject is the client's principal. A listener with SASL asks only if the property has the prefix of the listener.",
    "ssl.enabled.protocols":
        "Versions of TLS, from the lowest of the list to the highest.",
    "ssl.key.password":
        "Password of the private key, if it differs from that of the keystore.",
    "ssl.keystore.certificate.chain":
        "Certificates of ssl.keystore.key in PEM, the broker's first; they may be in ssl.keystore.key too.",
    "ssl.keystore.key":
        "Private key in PEM, in place of a keystore. Line ends may be written as \\n.",
    "ssl.keystore.location":
        "File with the private key and the certificates of listeners with TLS: PEM, PKCS12 or JKS.",
    "ssl.keystore.password":
        "Password of the keystore.",
    "ssl.keystore.type":
        "Format of the keystore. No effect here: the format is recognised by the content of the file.",
    "ssl.principal.mapping.rules":
        "How the user's name is derived from the subject of a client's certificate: DEFAULT for the subject itself, or rules "
        "RULE:PATTERN/REPLACEMENT/ with L or U at the end for lower or upper case; the first that matches counts.",
    "ssl.truststore.certificates":
        "Trusted certificates in PEM, in place of a truststore.",
    "ssl.truststore.location":
        "File with the certificates that clients' certificates have to be signed with: PEM, PKCS12 or JKS.",
    "ssl.truststore.password":
        "Password of the truststore.",
    "ssl.truststore.type":
        "Format of the truststore. No effect here: the format is recognised by the content of the file.",
    "stuntbroker.cluster.id":
        "Cluster id of a new data folder, in visible ASCII characters. If it is empty, the id is random. A folder that has an id "
        "keeps it.",
    "stuntbroker.deny.two.phase.commit":
        "Comma-separated transactional ids that may not use two-phase commit: InitProducerId with Enable2Pc gets "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED. A * at the end of an id stands for any ending.",
    "stuntbroker.groups.max.bytes":
        "Memory in bytes for the metadata and assignments of all group members together. Beyond it, JoinGroup and SyncGroup get "
        "GROUP_MAX_SIZE_REACHED.",
    "stuntbroker.initial.producer.epoch":
        "Producer epoch of a new transactional id, 0 to 32766. With 32766 the first bump of the epoch allocates a new producer "
        "id, which lets a test see the overflow.",
    "stuntbroker.initial.producer.id":
        "Smallest producer id that the broker allocates. A data folder that has allocated higher ones continues after them.",
    "stuntbroker.jaas.file":
        "JAAS file, in whose context KafkaServer the options user_NAME of PlainLoginModule are passwords for PLAIN. The image "
        "takes it from -Djava.security.auth.login.config in KAFKA_OPTS.",
    "stuntbroker.mapped.address":
        "HOST:PORT by which clients outside a container reach it. Clients that connect through the gateway of the container get "
        "this address; without it, they get localhost and the port that they connected to. The command stuntbroker advertise "
        "changes it while the broker runs.",
    "stuntbroker.mapped.address.wait.ms":
        "Milliseconds after the start for which clients that connect through the gateway of the container wait until "
        "stuntbroker.mapped.address is set.",
    "stuntbroker.nodes":
        "Number of brokers in this process, which form a cluster: 1 to 100. The first has the id node.id, the ids and the ports "
        "of the others follow it one by one; docs/nodes.md.",
    "stuntbroker.personality":
        "The Kafka release that listeners imitate: 2.1, 2.5, 2.8, 3.3, 3.6, 3.9, 4.0 or 4.3. One release is for all "
        "listeners, NAME:RELEASE is for one. Clients see that release's versions of APIs; docs/personalities.md.",
    "stuntbroker.principal":
        "Principal of the clients of listeners without authentication, instead of User:ANONYMOUS: User:NAME is for all "
        "listeners, LISTENER:User:NAME is for one; several are separated by semicolons. With it, ACLs can be tested without "
        "TLS and SASL.",
    "stuntbroker.profile":
        "Rules of transactions: kafka is Apache Kafka 4.3.1, kip-588 and kip-447-draft follow drafts of these proposals. One "
        "profile is for all listeners, NAME:PROFILE is for one; docs/profiles.md.",
    "stuntbroker.replication.factor":
        "Replication factors that are accepted: strict refuses those above the number of nodes, as Kafka does. With any they are "
        "accepted, and every node keeps one copy.",
    "stuntbroker.users":
        "Users of listeners with SASL, as NAME:PASSWORD, separated by commas: for PLAIN and for SCRAM.",
    "stuntbroker.write.buffer.bytes":
        "Bytes of unsent responses from which the broker stops handling the requests of a connection, until its client has "
        "read some of them.",
    "super.users":
        "Principals that may do everything, as User:NAME, separated by semicolons. Only with authorizer.class.name.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms":
        "Milliseconds between two searches for transactions that have timed out. The broker aborts those that it finds.",
    "transaction.max.timeout.ms":
        "Longest transaction time-out in milliseconds. InitProducerId with a longer one gets INVALID_TRANSACTION_TIMEOUT. "
        "Two-phase transactions have no time-out.",
    "transaction.partition.verification.enable":
        "Whether Produce and TxnOffsetCommit of older clients verify with the coordinator that the partition is in the "
        "transaction. A recovered two-phase transaction is verified in any case.",
    "transaction.remove.expired.transaction.cleanup.interval.ms":
        "Milliseconds between two searches for transactional ids that have expired.",
    "transaction.state.log.num.partitions":
        "Number of partitions of __transaction_state, at most 10000. It is read when the topic is created.",
    "transaction.state.log.replication.factor":
        "Replication factor of __transaction_state. The default is 3, or the number of nodes when that is less. A value above "
        "the number of nodes is accepted with a warning.",
    "transaction.state.log.segment.bytes":
        "Size of a segment file of __transaction_state in bytes, at least 1048576. It is read when the topic is created.",
    "transaction.two.phase.commit.enable":
        "Whether two-phase commit (KIP-939) is served. If so, ApiVersions advertises InitProducerId version 6; if not, "
        "version 5 is the newest.",
    "transaction.version":
        "Level of the feature transaction.version, 0 to 2. A new data folder begins at it. If it is set, it replaces the level "
        "in an existing folder; UpdateFeatures can change the level afterwards.",
    "transactional.id.expiration.ms":
        "Milliseconds without use after which a transactional id expires. An id with an open transaction is never "
        "forgotten.",
}  # fmt: skip
"""Broker property -> its documentation."""
