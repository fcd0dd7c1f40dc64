"""What the broker answers: key -> versions and handler. ApiVersions advertises this table, and nothing else is answered.

A house test holds it against the handlers' own VERSIONS. How a request finds its handler: router.py.
"""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)

RELEASE: Final = "4.3"
"""The Kafka release that this table is of; listeners may show themselves as an older one (personality.py)."""
SERVED: Final[dict[int, tuple[int, int, str]]] = {
    0: (3, 13, "k00_produce"),
    1: (4, 18, "k01_fetch"),
    2: (1, 11, "k02_list_offsets"),
    3: (0, 13, "k03_metadata"),
    8: (2, 10, "k08_offset_commit"),
    9: (1, 10, "k09_offset_fetch"),
    10: (0, 6, "k10_find_coordinator"),
    11: (0, 9, "k11_join_group"),
    12: (0, 4, "k12_heartbeat"),
    13: (0, 5, "k13_leave_group"),
    14: (0, 5, "k14_sync_group"),
    15: (0, 6, "k15_describe_groups"),
    16: (0, 5, "k16_list_groups"),
    18: (0, 4, "k18_api_versions"),
    19: (2, 7, "k19_create_topics"),
    20: (1, 6, "k20_delete_topics"),
    21: (0, 2, "k21_delete_records"),
    22: (0, 6, "k22_init_producer_id"),
    23: (2, 4, "k23_offset_for_leader_epoch"),
    24: (0, 5, "k24_add_partitions_to_txn"),
    25: (0, 4, "k25_add_offsets_to_txn"),
    26: (0, 5, "k26_end_txn"),
    27: (1, 2, "k27_write_txn_markers"),
    28: (0, 5, "k28_txn_offset_commit"),
    29: (1, 3, "k29_describe_acls"),
    30: (1, 3, "k30_create_acls"),
    31: (1, 3, "k31_delete_acls"),
    32: (1, 4, "k32_describe_configs"),
    33: (0, 2, "k33_alter_configs"),
    34: (1, 2, "k34_alter_replica_log_dirs"),
    35: (1, 5, "k35_describe_log_dirs"),
    37: (0, 3, "k37_create_partitions"),
    42: (0, 2, "k42_delete_groups"),
    43: (0, 2, "k43_elect_leaders"),
    44: (0, 1, "k44_incremental_alter_configs"),
    45: (0, 1, "k45_alter_partition_reassignments"),
    46: (0, 0, "k46_list_partition_reassignments"),
    47: (0, 0, "k47_offset_delete"),
    48: (0, 1, "k48_describe_client_quotas"),
    49: (0, 1, "k49_alter_client_quotas"),
    55: (0, 2, "k55_describe_quorum"),
    57: (0, 2, "k57_update_features"),
    60: (0, 2, "k60_describe_cluster"),
    61: (0, 0, "k61_describe_producers"),
    65: (0, 0, "k65_describe_transactions"),
    66: (0, 2, "k66_list_transactions"),
    74: (0, 1, "k74_list_config_resources"),
    75: (0, 0, "k75_describe_topic_partitions"),
}

WITHOUT_TWO_PHASE: Final = {INIT_PRODUCER_ID: 5}
"""The newest versions while `transaction.two.phase.commit.enable` is off."""
ONLY_APPEND: Final = frozenset(
    {
        PRODUCE,
        OFFSET_COMMIT,
        FIND_COORDINATOR,
        HEARTBEAT,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
    }
)
"""Requests that write to logs and read none."""
NO_ANSWER: Final = object()
"""Returned by a handler for a request without a response (Produce with acks=0)."""
