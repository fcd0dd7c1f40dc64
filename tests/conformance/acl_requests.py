"""Every request that needs a permission, for a user's own resources and for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.batches import TRANSACTIONAL, some
from tests.conformance.side import BUSY, Side, errors_of

MINUTE_MS: Final = 60_000
UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")


class Asking(NamedTuple):
    """A user's connection, and the names that the user's requests have in them."""

    side: Side
    ids: Mapping[str, bytes]
    """Ids of the topics `t` and `other`."""
    own: str
    other: str
    group: str
    another: str
    txn: str
    foreign: str

    @property
    def topics(self) -> tuple[str, ...]:
        return self.own, self.other, self.side.name("none")


def produce_and_transactions(asking: Asking) -> None:
    side, ids, own, other = asking.side, asking.ids, asking.own, asking.other
    group, another, txn, foreign = asking.group, asking.another, asking.txn, asking.foreign
    ask, topics = asking.side.ask, asking.topics
    plain = some(1)
    for version in (3, 9):
        data = [{"name": name, "partition_data": [{"index": 0, "records": plain}]} for name in (own, other)]
        ask("Produce", version, acks=-1, timeout_ms=5_000, topic_data=data)
    side.send("Produce", 9, acks=0, timeout_ms=5_000, topic_data=data[:1], on="without acks")
    side.send("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data[:1], on="without acks")
    side.note("Produce after one without acks", side.hear("without acks"))
    data = [{"topic_id": ids[name], "partition_data": [{"index": 0, "records": plain}]} for name in ("t", "other")]
    ask("Produce", 13, "by id", acks=-1, timeout_ms=5_000, topic_data=data)
    for name in (txn, foreign):
        for version in (0, 5):
            ask("InitProducerId", version, name, retry=BUSY, transactional_id=name, transaction_timeout_ms=MINUTE_MS)
    ask("InitProducerId", 4, "without an id", transactional_id=None, transaction_timeout_ms=MINUTE_MS)
    for name in (txn, foreign, None):
        records = some(1, attributes=TRANSACTIONAL, producer_id=5_000_099, producer_epoch=0, base_sequence=0)
        data = [{"name": each, "partition_data": [{"index": 0, "records": records}]} for each in (own, other)]
        ask("Produce", 9, f"in {name}", transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=data)
    for name in (txn, foreign):
        wanted = [{"name": each, "partitions": [0, 7]} for each in topics]
        for some_topics in (wanted[:1], wanted[1:2], wanted):
            ask(
                "AddPartitionsToTxn",
                3,
                name,
                retry=BUSY,
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=5_000_099,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=some_topics,
            )
        each = {"transactional_id": name, "producer_id": 5_000_099, "producer_epoch": 0, "topics": wanted[:1]}
        ask("AddPartitionsToTxn", 4, name, retry=BUSY, transactions=[each])
        for its_group in (group, another):
            ask(
                "AddOffsetsToTxn",
                3,
                name,
                retry=BUSY,
                transactional_id=name,
                producer_id=5_000_099,
                producer_epoch=0,
                group_id=its_group,
            )
            part = {"partition_index": 0, "committed_offset": 1}
            offsets = [{"name": each, "partitions": [part]} for each in topics]
            for version in (2, 5):
                ask(
                    "TxnOffsetCommit",
                    version,
                    f"{name} {its_group}",
                    retry=BUSY,
                    transactional_id=name,
                    group_id=its_group,
                    producer_id=5_000_099,
                    producer_epoch=0,
                    topics=offsets,
                )
        for version in (3, 5):
            ask(
                "EndTxn",
                version,
                name,
                retry=BUSY,
                transactional_id=name,
                producer_id=5_000_099,
                producer_epoch=0,
                committed=True,
            )
    marker = {
        "producer_id": 5_000_099,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": own, "partition_indexes": [7]}],
        "coordinator_epoch": 0,
    }
    ask("WriteTxnMarkers", 1, markers=[marker])
    ask("DescribeTransactions", 0, transactional_ids=[txn, foreign])
    reply = side.quiet("ListTransactions", 0)
    side.table(
        "ListTransactions",
        {
            "ids": sorted(
                each.transactional_id for each in reply.transaction_states if each.transactional_id.startswith(side.own)
            )
        },
    )


def fetches(asking: Asking) -> None:
    ids = asking.ids
    ask, topics = asking.side.ask, asking.topics
    for version in (4, 12):
        wanted = [
            {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]}
            for name in topics
        ]
        ask("Fetch", version, topics=wanted, min_bytes=1, max_wait_ms=0, session_epoch=-1)
    wanted = [
        {"topic_id": topic_id, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]}
        for topic_id in ids.values()
    ]
    ask("Fetch", 13, topics=wanted, session_epoch=-1)
    reply = ask("Fetch", 13, "session", topics=wanted, session_epoch=0)
    ask(
        "Fetch",
        13,
        "session goes on",
        topics=[],
        session_epoch=1,
        session_id=getattr(reply, "session_id", 0),
        max_wait_ms=0,
    )
    ask("Fetch", 13, "as a follower", topics=wanted, session_epoch=-1, replica_id=3)
    parts = [
        {"name": name, "partitions": [{"partition_index": at, "timestamp": -1} for at in (0, 7)]} for name in topics
    ]
    for version in (1, 7):
        ask("ListOffsets", version, replica_id=-1, topics=parts)
    epochs = [
        {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
        for name in topics
    ]
    ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=epochs)
    ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]} for name in topics])


def metadata(asking: Asking) -> None:
    side, ids, own, other = asking.side, asking.ids, asking.own, asking.other
    ask, topics = asking.side.ask, asking.topics
    for version in (0, 4, 8, 12, 13):
        more = {"include_topic_authorized_operations": True} if version >= 8 else {}
        if version == 8:
            more["include_cluster_authorized_operations"] = True
        for create in (False, True):
            ask(
                "Metadata",
                version,
                f"create {create}",
                allow_auto_topic_creation=create,
                topics=[{"name": name} for name in (own, other, side.name("bad name"))],
                **more,
            )
    for name in ("made-t", "t-made"):
        reply = side.quiet("Metadata", 12, allow_auto_topic_creation=True, topics=[{"name": side.name(f"{name}-1")}])
        side.table(f"creates {name}", {"denied": errors_of(reply) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}})
    ask("Metadata", 12, "by id", topics=[{"name": None, "topic_id": each} for each in (*ids.values(), UNKNOWN_ID)])
    reply = side.quiet("Metadata", 12, topics=None)
    known = {each.name: each for each in reply.topics if each.name in (own, other)}
    side.table("all topics", {name: each.error_code for name, each in known.items()})
    reply = side.quiet("DescribeCluster", 1, include_cluster_authorized_operations=True)
    side.table("DescribeCluster", {"operations": reply.cluster_authorized_operations, "error": reply.error_code})
    ask("DescribeTopicPartitions", 0, topics=[{"name": name} for name in topics])
    reply = side.quiet("DescribeTopicPartitions", 0, topics=[])
    side.table(
        "DescribeTopicPartitions",
        {each.name: each.topic_authorized_operations for each in reply.topics if each.name in (own, other)},
    )


def groups(asking: Asking) -> None:
    side, ids, group = asking.side, asking.ids, asking.group
    another, txn, foreign = asking.another, asking.txn, asking.foreign
    ask, topics = asking.side.ask, asking.topics
    keys = [(0, group), (0, another), (1, txn), (1, foreign)]
    for kind, key in keys:
        for version in (0, 3):
            ask("FindCoordinator", version, key, key=key, key_type=kind)
    ask("FindCoordinator", 4, "groups", key_type=0, coordinator_keys=[group, another])
    ask("FindCoordinator", 6, "ids", key_type=1, coordinator_keys=[txn, foreign])
    for each in (group, another):
        for version in (2, 8, 9):
            part = {"partition_index": 0, "committed_offset": 2}
            ask(
                "OffsetCommit",
                version,
                each,
                group_id=each,
                generation_id_or_member_epoch=-1,
                topics=[{"name": name, "partitions": [part]} for name in topics],
            )
        ask(
            "OffsetCommit",
            10,
            f"{each} by id",
            group_id=each,
            generation_id_or_member_epoch=-1,
            topics=[{"topic_id": topic_id, "partitions": [part]} for topic_id in ids.values()],
        )
        for version in (1, 2, 5, 7):
            ask(
                "OffsetFetch",
                version,
                each,
                group_id=each,
                topics=[{"name": name, "partition_indexes": [0, 1]} for name in topics],
            )
            if version > 1:
                ask("OffsetFetch", version, f"{each} all", group_id=each, topics=None)
        ask("Heartbeat", 4, each, group_id=each, generation_id=1, member_id="m")
        ask(
            "SyncGroup",
            5,
            each,
            group_id=each,
            generation_id=1,
            member_id="m",
            protocol_type="consumer",
            protocol_name="range",
        )
        ask(
            "JoinGroup",
            3,
            each,
            group_id=each,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="m",
            protocol_type="consumer",
            protocols=[],
        )
        ask(
            "JoinGroup",
            7,
            each,
            group_id=each,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="m",
            protocol_type="consumer",
            protocols=[],
        )
        ask("LeaveGroup", 2, each, group_id=each, member_id="m")
        ask("LeaveGroup", 4, each, group_id=each, members=[{"member_id": "m"}])
        ask(
            "OffsetDelete",
            0,
            each,
            group_id=each,
            topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in topics],
        )
    for version in (8, 9):
        some_topics = [{"name": name, "partition_indexes": [0]} for name in topics]
        ask(
            "OffsetFetch",
            version,
            "groups",
            groups=[{"group_id": each, "topics": some_topics} for each in (group, another)],
        )
        ask(
            "OffsetFetch",
            version,
            "groups, all",
            groups=[{"group_id": each, "topics": None} for each in (group, another)],
        )
    some_topics = [{"topic_id": topic_id, "partition_indexes": [0]} for topic_id in (*ids.values(), UNKNOWN_ID)]
    ask(
        "OffsetFetch",
        10,
        "groups by id",
        groups=[{"group_id": each, "topics": some_topics} for each in (group, another)],
    )
    for version in (1, 5, 6):
        more = {"include_authorized_operations": True} if version >= 3 else {}
        ask("DescribeGroups", version, groups=[group, another, side.name("no group")], **more)
    reply = side.quiet("ListGroups", 5)
    side.table(
        "ListGroups", {each.group_id: each.group_state for each in reply.groups if each.group_id.startswith(side.own)}
    )


def configuration(asking: Asking) -> None:
    side, own, other, group = asking.side, asking.own, asking.other, asking.group
    ask = asking.side.ask
    resources = [
        (2, own),
        (2, other),
        (2, side.name("none")),
        (4, "1"),
        (4, ""),
        (8, "1"),
        (32, group),
        (16, "metrics"),
    ]
    reply = side.quiet(
        "DescribeConfigs",
        4,
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources
        ],
    )
    side.table(
        "DescribeConfigs",
        {
            f"{each.resource_type} {each.resource_name}": (
                each.error_code,
                each.resource_type < 5 and bool(each.configs),
            )
            for each in reply.results
        },
    )
    for kind, name in resources[:4]:
        values = [
            {"name": "retention.ms" if kind == 2 else "log.cleaner.threads", "value": "10000000" if kind == 2 else "1"}
        ]
        for version in (0, 2):
            ask(
                "AlterConfigs",
                version,
                f"{kind} {name}",
                resources=[{"resource_type": kind, "resource_name": name, "configs": values}],
                validate_only=True,
            )
        ask(
            "IncrementalAlterConfigs",
            1,
            f"{kind} {name}",
            resources=[
                {"resource_type": kind, "resource_name": name, "configs": [{**values[0], "config_operation": 0}]}
            ],
            validate_only=True,
        )
    both_topics = [
        {
            "resource_type": 2,
            "resource_name": name,
            "configs": [{"name": "retention.ms", "value": "10000000", "config_operation": 0}],
        }
        for name in (own, other)
    ]
    ask("IncrementalAlterConfigs", 1, "both", resources=both_topics, validate_only=True)


def administration(asking: Asking) -> None:
    side, ids, own = asking.side, asking.ids, asking.own
    ask, topics = asking.side.ask, asking.topics
    for version in (4, 5, 7):
        new = [
            {"name": side.name(name), "num_partitions": 1, "replication_factor": 1} for name in ("t", "new-t", "t-new")
        ]
        ask("CreateTopics", version, topics=new, timeout_ms=5_000, validate_only=True)
    twice = [{"name": side.name("twice"), "num_partitions": 1, "replication_factor": 1}] * 2
    ask("CreateTopics", 7, "twice", topics=twice, timeout_ms=5_000, validate_only=True)
    for version in (0, 3):
        ask(
            "CreatePartitions",
            version,
            topics=[{"name": name, "count": 1, "assignments": None} for name in topics],
            timeout_ms=5_000,
            validate_only=True,
        )
    ask(
        "DeleteRecords",
        2,
        topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in topics],
        timeout_ms=5_000,
    )
    ask("DeleteGroups", 2, groups_names=[side.name("no group"), side.name("g-none")])
    ask("ElectLeaders", 2, election_type=0, topic_partitions=[{"topic": own, "partitions": [0]}], timeout_ms=5_000)
    ask(
        "AlterPartitionReassignments",
        0,
        topics=[{"name": own, "partitions": [{"partition_index": 0, "replicas": None}]}],
        timeout_ms=5_000,
    )
    ask("ListPartitionReassignments", 0, topics=[{"name": own, "partition_indexes": [0]}], timeout_ms=5_000)
    ask(
        "DescribeClientQuotas",
        1,
        components=[{"entity_type": "user", "match_type": 0, "match": "nobody-at-all"}],
        strict=True,
    )
    ask(
        "AlterClientQuotas",
        1,
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "u"}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
            }
        ],
        validate_only=True,
    )
    ask("DescribeUserScramCredentials", 0, users=[{"name": "nobody-at-all"}])
    ask("AlterUserScramCredentials", 0, deletions=[{"name": "nobody-at-all", "mechanism": 1}], upsertions=[])
    ask(
        "UpdateFeatures",
        1,
        timeout_ms=5_000,
        feature_updates=[{"feature": "nothing", "max_version_level": 1, "upgrade_type": 1}],
        validate_only=True,
    )
    ask(
        "DescribeAcls",
        3,
        resource_type_filter=6,
        resource_name_filter="nothing",
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
        principal_filter=None,
        host_filter=None,
    )
    bad = {
        "resource_type": 4,
        "resource_name": "wrong",
        "resource_pattern_type": 3,
        "principal": "User:x",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    ask("CreateAcls", 3, creations=[bad])
    ask(
        "DeleteAcls",
        3,
        filters=[
            {
                "resource_type_filter": 6,
                "resource_name_filter": "nothing",
                "pattern_type_filter": 1,
                "operation": 1,
                "permission_type": 1,
                "principal_filter": None,
                "host_filter": None,
            }
        ],
    )
    reply = side.quiet("DescribeLogDirs", 4, topics=[])
    side.table("DescribeLogDirs", {"error": reply.error_code, "some": bool(reply.results)})
    reply = side.quiet(
        "DescribeQuorum", 2, topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    )
    side.table("DescribeQuorum", {"error": reply.error_code})
    reply = side.quiet("ListConfigResources", 1, resource_types=[2])
    side.table(
        "ListConfigResources",
        {
            "error": reply.error_code,
            "own": sorted(each.resource_name for each in reply.config_resources if each.resource_name == own),
        },
    )
    for version in (3, 5):
        ask("DeleteTopics", version, topic_names=[side.name(f"gone-{version}"), side.name("none")], timeout_ms=5_000)
    ask(
        "DeleteTopics",
        6,
        "by id",
        topics=[{"name": None, "topic_id": ids["other"]}, {"name": None, "topic_id": UNKNOWN_ID}],
        timeout_ms=5_000,
    )
    ask("DeleteTopics", 6, "by name", topics=[{"name": own}, {"name": side.name("none")}], timeout_ms=5_000)


def _all_pages(side: Side) -> list[str]:
    """Return the names of all topics of the case that the client may know, read one partition at a time."""
    names, cursor = set(), None
    while True:
        reply = side.quiet("DescribeTopicPartitions", 0, topics=[], cursor=cursor, response_partition_limit=1)
        names |= {topic.name for topic in reply.topics}
        if reply.next_cursor is None:
            return sorted(name for name in names if name.startswith(side.own) and "made" not in name)
        cursor = {"topic_name": reply.next_cursor.topic_name, "partition_index": reply.next_cursor.partition_index}


def wrong_in_another_way(asking: Asking) -> None:
    """Requests that are invalid or unusual, besides what is not permitted."""
    side, ids, own, other, group = asking.side, asking.ids, asking.own, asking.other, asking.group
    ask, missing = side.ask, side.name("none")
    plain, part = some(1), {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    ask(
        "Produce",
        9,
        "no name",
        acks=-1,
        timeout_ms=1_000,
        topic_data=[{"name": "", "partition_data": [{"index": 0, "records": plain}]}],
    )
    ask(
        "Produce",
        9,
        "twice",
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            {"name": name, "partition_data": [{"index": 0, "records": plain}]} for name in (own, other, own, other)
        ],
    )
    for name in (own, other, missing):
        for version in (4, 12):
            ask(
                "Fetch",
                version,
                f"isolation {name}",
                topics=[{"topic": name, "partitions": [part]}],
                isolation_level=2,
                session_epoch=-1,
            )
    for topic_id in (*ids.values(), UNKNOWN_ID):
        ask(
            "Fetch",
            13,
            "isolation",
            topics=[{"topic_id": topic_id, "partitions": [part]}],
            isolation_level=2,
            session_epoch=-1,
        )
        ask(
            "Fetch",
            15,
            "follower",
            topics=[{"topic_id": topic_id, "partitions": [part]}],
            replica_state={"replica_id": 3, "replica_epoch": 1},
            session_epoch=-1,
        )
    ask(
        "ListOffsets",
        7,
        "earliest",
        replica_id=-1,
        topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]} for name in (own, other)],
    )
    for version in (10, 12):
        for wanted in (
            [{"name": None, "topic_id": ids["other"]}],
            [{"name": own, "topic_id": bytes(16)}, {"name": None, "topic_id": ids["other"]}],
            [{"name": None, "topic_id": bytes(16)}, {"name": other, "topic_id": bytes(16)}],
            [{"name": other}, {"name": other}, {"name": own}],
        ):
            ask("Metadata", version, f"{len(wanted)}", topics=wanted, allow_auto_topic_creation=False)
    for cursor in ((own, 0), (other, 0), (missing, 0), (own, -1), (side.name("z"), 0)):
        where = {"topic_name": cursor[0], "partition_index": cursor[1]}
        named = [{"name": name} for name in (own, other)]
        ask("DescribeTopicPartitions", 0, f"{cursor}", topics=named, cursor=where, response_partition_limit=1)
    side.table("DescribeTopicPartitions in pages", {"topics": _all_pages(side)})
    for version in (10,):
        ask(
            "OffsetCommit",
            version,
            "zero id",
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[{"topic_id": bytes(16), "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        )
        ask(
            "OffsetFetch",
            version,
            "zero id",
            groups=[{"group_id": group, "topics": [{"topic_id": bytes(16), "partition_indexes": [0]}]}],
        )
    ask(
        "OffsetDelete",
        0,
        "no group",
        group_id=side.name("g-none"),
        topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in (own, other)],
    )
    for version in (1, 3, 5):
        ask("FindCoordinator", version, "of share groups", key="s", key_type=2, coordinator_keys=["s"])
    ask("DeleteGroups", 2, "twice", groups_names=[side.name("no group")] * 2)
    twice = {"name": "retention.ms", "value": "10000000", "config_operation": 0}
    ask(
        "IncrementalAlterConfigs",
        1,
        "twice",
        validate_only=True,
        resources=[{"resource_type": 2, "resource_name": other, "configs": [twice]}] * 2,
    )
    ask(
        "IncrementalAlterConfigs",
        1,
        "another broker",
        validate_only=True,
        resources=[
            {
                "resource_type": 4,
                "resource_name": "77",
                "configs": [{**twice, "name": "log.cleaner.threads", "value": "1"}],
            }
        ],
    )
    mixed = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
        for kind, name in ((2, own), (2, other), (7, "?"))
    ]
    ask("DescribeConfigs", 4, "an unknown type", resources=mixed)
    for path in ("/nowhere", "/elsewhere"):
        ask(
            "AlterReplicaLogDirs",
            2,
            path,
            dirs=[{"path": path, "topics": [{"name": own, "partitions": [0, 1]}, {"name": other, "partitions": [0]}]}],
        )
    reply = side.quiet("DescribeLogDirs", 4, topics=[{"topic": own, "partitions": [0]}])
    side.table("DescribeLogDirs of a topic", {"error": reply.error_code, "dirs": len(reply.results)})
    for version in (2, 7):
        new = [
            {"name": name, "num_partitions": 1, "replication_factor": 1}
            for name in ("__cluster_metadata", side.name("t-x"))
        ]
        ask("CreateTopics", version, "of Kafka's metadata", topics=new, timeout_ms=1_000, validate_only=True)
    ask(
        "CreatePartitions",
        3,
        "twice",
        topics=[{"name": other, "count": 2, "assignments": None}] * 2,
        timeout_ms=1_000,
        validate_only=True,
    )
    for wrong in ({"name": other, "topic_id": ids["other"]}, {"name": None, "topic_id": bytes(16)}):
        ask("DeleteTopics", 6, f"{wrong['name']} and an id", topics=[wrong], timeout_ms=1_000)
    ask("DeleteTopics", 6, "twice", topics=[{"name": other}, {"name": other}], timeout_ms=1_000)
    ask("DeleteTopics", 6, "no time", topics=[{"name": other}, {"name": own}], timeout_ms=0)
    ask("DeleteTopics", 5, "missing", topic_names=[missing, side.name("t-none")], timeout_ms=1_000)


REQUESTS: Final = (
    produce_and_transactions, fetches, metadata, groups, wrong_in_another_way, configuration, administration,
)  # fmt: skip


def requests(side: Side, ids: Mapping[str, bytes]) -> None:
    """Send every request that needs a permission."""
    for topic_id in ids.values():
        side.names.of("topic", topic_id)  # The same name on both sides, in whatever order replies have them.
    asking = Asking(side, ids, *(side.name(each) for each in ("t", "other", "g", "h", "x", "y")))
    for send in REQUESTS:
        send(asking)
