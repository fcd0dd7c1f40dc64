"""One valid request of every served API, as a client would send it, for an existing topic."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.protocol.api_keys import APIS, FETCH, JOIN_GROUP, SYNC_GROUP
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.primitives import ZERO_UUID, Message
from tests.kit.rig import START_MS

GROUP: Final = "attacked-group"
TXN: Final = "attacked-txn"
TOPIC: Final = "attacked"
CASES: Final = [(key, version) for key, (low, high, _) in SERVED.items() for version in range(low, high + 1)]
IDS: Final = [f"{APIS[key].name}-v{version}" for key, version in CASES]
MAY_WAIT: Final = frozenset({FETCH, JOIN_GROUP, SYNC_GROUP})
"""Fetch, JoinGroup and SyncGroup, whose responses may be delayed."""


def batch(
    count: int = 2, producer_id: int = -1, epoch: int = -1, sequence: int = -1, size: int = 3, timestamp: int = START_MS
) -> bytes:
    """A record batch; with a producer id it is part of a transaction."""
    records = [(b"k%d" % n, b"v" * size) for n in range(count)]
    return bytes(
        build_batch(
            records,
            timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        )
    )


def request_of(key: int) -> Callable[..., Any]:
    """The class of an API's request."""
    api = APIS[key]
    created: Callable[..., Any] = getattr(
        import_module(f"stuntbroker.protocol.messages.{api.module}_request"), f"{api.name}Request"
    )
    return created


def part(key: int, name: str) -> Callable[..., Any]:
    created: Callable[..., Any] = getattr(
        import_module(f"stuntbroker.protocol.messages.{APIS[key].module}_request"), name
    )
    return created


def valid_request(key: int, version: int, topic_id: bytes, producer_id: int = 1_000, epoch: int = 0) -> Message:
    """Return a request in which every array has an element, so that tests can change every length and count."""
    created: Message = request_of(key)(**_fields(key, version, topic_id, producer_id, epoch))
    return created


def _fields(key: int, version: int, topic_id: bytes, producer_id: int, epoch: int) -> dict[str, Any]:
    def new(name: str, *arguments: Any) -> Any:
        return part(key, name)(*arguments)

    match key:
        case 0:
            data = [new("TopicProduceData", TOPIC, topic_id, [new("PartitionProduceData", 0, batch())])]
            return {"acks": -1, "timeout_ms": 1_000, "topic_data": data}
        case 1:
            partition = new("FetchPartition", 0, -1, 0, -1, -1, 1_000)
            return {
                "max_wait_ms": 0, "min_bytes": 1, "isolation_level": 1, "session_id": 0, "session_epoch": -1,
                "topics": [new("FetchTopic", TOPIC, topic_id, [partition])],
                "forgotten_topics_data": [new("ForgottenTopic", TOPIC, topic_id, [0])],
            }  # fmt: skip
        case 2:
            return {
                "replica_id": -1,
                "topics": [new("ListOffsetsTopic", TOPIC, [new("ListOffsetsPartition", 0, -1, -1)])],
            }
        case 3:
            wanted = new(
                "MetadataRequestTopic", topic_id if version >= 12 else ZERO_UUID, None if version >= 12 else TOPIC
            )
            return {"topics": [wanted]}
        case 8:
            each = new("OffsetCommitRequestPartition", 0, 1, -1, "note")
            return {"group_id": GROUP, "topics": [new("OffsetCommitRequestTopic", TOPIC, topic_id, [each])]}
        case 9:
            request = new("OffsetFetchRequestTopics", TOPIC, topic_id, [0])
            return {
                "group_id": GROUP, "topics": [new("OffsetFetchRequestTopic", TOPIC, [0])],
                "groups": [new("OffsetFetchRequestGroup", GROUP, None, -1, [request])],
            }  # fmt: skip
        case 10:
            return {"key": GROUP, "coordinator_keys": [GROUP]}
        case 11:
            return {
                "group_id": GROUP, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
                "protocol_type": "consumer", "protocols": [new("JoinGroupRequestProtocol", "range", b"meta")],
            }  # fmt: skip
        case 12:
            return {"group_id": GROUP, "generation_id": 1, "member_id": "nobody"}
        case 13:
            return {"group_id": GROUP, "member_id": "nobody", "members": [new("MemberIdentity", "nobody")]}
        case 14:
            return {
                "group_id": GROUP, "generation_id": 1, "member_id": "nobody", "protocol_type": "consumer",
                "protocol_name": "range", "assignments": [new("SyncGroupRequestAssignment", "nobody", b"mine")],
            }  # fmt: skip
        case 15:
            return {"groups": [GROUP]}
        case 16:
            return {"states_filter": ["Empty"], "types_filter": ["classic"]}
        case 17:
            return {"mechanism": "PLAIN"}
        case 18:
            return {"client_software_name": "tester", "client_software_version": "1.0"}
        case _:
            return _more_fields(key, version, topic_id, producer_id, epoch)


def _more_fields(key: int, version: int, topic_id: bytes, producer_id: int, epoch: int) -> dict[str, Any]:
    def new(name: str, *arguments: Any) -> Any:
        return part(key, name)(*arguments)

    match key:
        case 36:
            return {"auth_bytes": b"\0alice\0alice-secret"}
        case 50:
            return {"users": [new("UserName", "alice")]}
        case 51:
            return {
                "deletions": [new("ScramCredentialDeletion", "bob", 1)],
                "upsertions": [new("ScramCredentialUpsertion", "alice", 1, 4_096, b"salt", b"salted")],
            }
        case 19:
            configs = [new("CreatableTopicConfig", "retention.ms", "1000")]
            return {"topics": [new("CreatableTopic", "made", 1, 1, [], configs)], "timeout_ms": 1_000}
        case 20:
            return {"topics": [new("DeleteTopicState", "made")], "topic_names": ["made"], "timeout_ms": 1_000}
        case 21:
            return {"topics": [new("DeleteRecordsTopic", TOPIC, [new("DeleteRecordsPartition", 0, 0)])]}
        case 22:
            return {"transactional_id": TXN, "transaction_timeout_ms": 60_000}
        case 23:
            return {"topics": [new("OffsetForLeaderTopic", TOPIC, [new("OffsetForLeaderPartition", 0, -1, 0)])]}
        case 24:
            topics = [new("AddPartitionsToTxnTopic", TOPIC, [0])]
            each = new("AddPartitionsToTxnTransaction", TXN, producer_id, epoch, False, topics)
            return {
                "transactions": [each], "v3_and_below_transactional_id": TXN, "v3_and_below_producer_id": producer_id,
                "v3_and_below_producer_epoch": epoch, "v3_and_below_topics": topics,
            }  # fmt: skip
        case 25:
            return {"transactional_id": TXN, "producer_id": producer_id, "producer_epoch": epoch, "group_id": GROUP}
        case 26:
            return {"transactional_id": TXN, "producer_id": producer_id, "producer_epoch": epoch, "committed": False}
        case 27:
            topics = [new("WritableTxnMarkerTopic", TOPIC, [0])]
            return {"markers": [new("WritableTxnMarker", producer_id, epoch, False, topics, 0, 0)]}
        case 28:
            each = new("TxnOffsetCommitRequestPartition", 0, 1, -1, "note")
            return {
                "transactional_id": TXN, "group_id": GROUP, "producer_id": producer_id, "producer_epoch": epoch,
                "topics": [new("TxnOffsetCommitRequestTopic", TOPIC, ZERO_UUID, [each])],
            }  # fmt: skip
        case 32:
            return {"resources": [new("DescribeConfigsResource", 2, TOPIC, ["retention.ms"])], "include_synonyms": True}
        case 33 | 44:
            config = new("AlterableConfig", *(("retention.ms", "1000") if key == 33 else ("retention.ms", 0, "1000")))
            return {"resources": [new("AlterConfigsResource", 2, TOPIC, [config])]}
        case 35:
            return {"topics": [new("DescribableLogDirTopic", TOPIC, [0])]}
        case 37:
            each = new("CreatePartitionsTopic", TOPIC, 2, [new("CreatePartitionsAssignment", [1])])
            return {"topics": [each], "validate_only": True}
        case 42:
            return {"groups_names": [GROUP]}
        case 47:
            return {
                "group_id": GROUP,
                "topics": [new("OffsetDeleteRequestTopic", TOPIC, [new("OffsetDeleteRequestPartition", 0)])],
            }
        case 29:
            return {"resource_type_filter": 5, "operation": 15, "permission_type": 1}
        case 30:
            return {"creations": [new("AclCreation", 5, TXN, 3, "User:x", "*", 15, 2)]}
        case 31:
            return {"filters": [new("DeleteAclsFilter", 5, TXN, 3, None, None, 15, 1)]}
        case 57:
            return {"feature_updates": [new("FeatureUpdateKey", "transaction.version", 2)]}
        case 60:
            return {}
        case 61:
            return {"topics": [new("TopicRequest", TOPIC, [0])]}
        case 65:
            return {"transactional_ids": [TXN]}
        case 66:
            return {"state_filters": ["Ongoing"], "producer_id_filters": [producer_id]}
        case 75:
            return {
                "topics": [new("TopicRequest", TOPIC)],
                "response_partition_limit": 10,
                "cursor": new("Cursor", TOPIC, 0),
            }
        case _:
            return _admin_fields(key)


def _admin_fields(key: int) -> dict[str, Any]:
    def new(name: str, *arguments: Any) -> Any:
        return part(key, name)(*arguments)

    match key:
        case 34:
            return {"dirs": [new("AlterReplicaLogDir", "/data", [new("AlterReplicaLogDirTopic", TOPIC, [0])])]}
        case 43:
            return {"topic_partitions": [new("TopicPartitions", TOPIC, [0])]}
        case 45:
            return {"topics": [new("ReassignableTopic", TOPIC, [new("ReassignablePartition", 0, [1])])]}
        case 46:
            return {"topics": [new("ListPartitionReassignmentsTopics", TOPIC, [0])]}
        case 48:
            return {"components": [new("ComponentData", "user", 0, "attacker")]}
        case 49:
            op = new("OpData", "producer_byte_rate", 1_000.0)
            return {"entries": [new("EntryData", [new("EntityData", "user", "attacker")], [op])]}
        case 55:
            return {"topics": [new("TopicData", "__cluster_metadata", [new("PartitionData", 0)])]}
        case 74:
            return {"resource_types": [2]}
    raise AssertionError(f"no request of API {key} is known here: add one")
