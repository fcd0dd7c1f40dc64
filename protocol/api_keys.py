"""GENERATED from tools/schemas by tools/generate.py (`make generate`): every API that has a codec."""

from __future__ import annotations

from typing import Final, NamedTuple


class Api(NamedTuple):
    """An API: its key and name, its versions, and the first version with a flexible encoding."""

    key: int
    name: str
    version_min: int
    version_max: int
    flexible_from: int
    """First version with compact lengths and tagged fields; 32767 when there is none."""
    module: str
    """`protocol.messages.<module>_request` and `_response`."""


PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
ALTER_REPLICA_LOG_DIRS: Final = 34
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLIENT_QUOTAS: Final = 48
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
DESCRIBE_QUORUM: Final = 55
UPDATE_FEATURES: Final = 57
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75

APIS: Final[dict[int, Api]] = {
    0: Api(0, "Produce", 3, 13, 9, "produce"),
    1: Api(1, "Fetch", 4, 18, 12, "fetch"),
    2: Api(2, "ListOffsets", 1, 11, 6, "list_offsets"),
    3: Api(3, "Metadata", 0, 13, 9, "metadata"),
    8: Api(8, "OffsetCommit", 2, 10, 8, "offset_commit"),
    9: Api(9, "OffsetFetch", 1, 10, 6, "offset_fetch"),
    10: Api(10, "FindCoordinator", 0, 6, 3, "find_coordinator"),
    11: Api(11, "JoinGroup", 0, 9, 6, "join_group"),
    12: Api(12, "Heartbeat", 0, 4, 4, "heartbeat"),
    13: Api(13, "LeaveGroup", 0, 5, 4, "leave_group"),
    14: Api(14, "SyncGroup", 0, 5, 4, "sync_group"),
    15: Api(15, "DescribeGroups", 0, 6, 5, "describe_groups"),
    16: Api(16, "ListGroups", 0, 5, 3, "list_groups"),
    17: Api(17, "SaslHandshake", 0, 1, 32767, "sasl_handshake"),
    18: Api(18, "ApiVersions", 0, 5, 3, "api_versions"),
    19: Api(19, "CreateTopics", 2, 7, 5, "create_topics"),
    20: Api(20, "DeleteTopics", 1, 6, 4, "delete_topics"),
    21: Api(21, "DeleteRecords", 0, 2, 2, "delete_records"),
    22: Api(22, "InitProducerId", 0, 6, 2, "init_producer_id"),
    23: Api(23, "OffsetForLeaderEpoch", 2, 4, 4, "offset_for_leader_epoch"),
    24: Api(24, "AddPartitionsToTxn", 0, 5, 3, "add_partitions_to_txn"),
    25: Api(25, "AddOffsetsToTxn", 0, 4, 3, "add_offsets_to_txn"),
    26: Api(26, "EndTxn", 0, 5, 3, "end_txn"),
    27: Api(27, "WriteTxnMarkers", 1, 2, 1, "write_txn_markers"),
    28: Api(28, "TxnOffsetCommit", 0, 6, 3, "txn_offset_commit"),
    29: Api(29, "DescribeAcls", 1, 3, 2, "describe_acls"),
    30: Api(30, "CreateAcls", 1, 3, 2, "create_acls"),
    31: Api(31, "DeleteAcls", 1, 3, 2, "delete_acls"),
    32: Api(32, "DescribeConfigs", 1, 4, 4, "describe_configs"),
    33: Api(33, "AlterConfigs", 0, 2, 2, "alter_configs"),
    34: Api(34, "AlterReplicaLogDirs", 1, 2, 2, "alter_replica_log_dirs"),
    35: Api(35, "DescribeLogDirs", 1, 5, 2, "describe_log_dirs"),
    36: Api(36, "SaslAuthenticate", 0, 2, 2, "sasl_authenticate"),
    37: Api(37, "CreatePartitions", 0, 3, 2, "create_partitions"),
    42: Api(42, "DeleteGroups", 0, 3, 2, "delete_groups"),
    43: Api(43, "ElectLeaders", 0, 2, 2, "elect_leaders"),
    44: Api(44, "IncrementalAlterConfigs", 0, 1, 1, "incremental_alter_configs"),
    45: Api(45, "AlterPartitionReassignments", 0, 1, 0, "alter_partition_reassignments"),
    46: Api(46, "ListPartitionReassignments", 0, 0, 0, "list_partition_reassignments"),
    47: Api(47, "OffsetDelete", 0, 0, 32767, "offset_delete"),
    48: Api(48, "DescribeClientQuotas", 0, 1, 1, "describe_client_quotas"),
    49: Api(49, "AlterClientQuotas", 0, 1, 1, "alter_client_quotas"),
    50: Api(50, "DescribeUserScramCredentials", 0, 0, 0, "describe_user_scram_credentials"),
    51: Api(51, "AlterUserScramCredentials", 0, 0, 0, "alter_user_scram_credentials"),
    55: Api(55, "DescribeQuorum", 0, 2, 0, "describe_quorum"),
    57: Api(57, "UpdateFeatures", 0, 2, 0, "update_features"),
    60: Api(60, "DescribeCluster", 0, 2, 0, "describe_cluster"),
    61: Api(61, "DescribeProducers", 0, 0, 0, "describe_producers"),
    65: Api(65, "DescribeTransactions", 0, 0, 0, "describe_transactions"),
    66: Api(66, "ListTransactions", 0, 2, 0, "list_transactions"),
    74: Api(74, "ListConfigResources", 0, 1, 0, "list_config_resources"),
    75: Api(75, "DescribeTopicPartitions", 0, 0, 0, "describe_topic_partitions"),
}
