"""Table of the served APIs: key -> versions and handler. ApiVersions advertises exactly this table.

A test compares it with the VERSIONS of the handlers. router.py finds the handler of a request.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
from stuntbroker.protocol.versions import TWO_PHASE_FROM


class Served(NamedTuple):
    """The served versions of an API, and its handler."""

    oldest: int
    newest: int
    handler: str
    """Module of `broker/handlers/`."""


SERVED: Final[dict[int, Served]] = {
    0: Served(3, 13, "k00_produce"),
    1: Served(4, 18, "k01_fetch"),
    2: Served(1, 11, "k02_list_offsets"),
    3: Served(0, 13, "k03_metadata"),
    8: Served(2, 10, "k08_offset_commit"),
    9: Served(1, 10, "k09_offset_fetch"),
    10: Served(0, 6, "k10_find_coordinator"),
    11: Served(0, 9, "k11_join_group"),
    12: Served(0, 4, "k12_heartbeat"),
    13: Served(0, 5, "k13_leave_group"),
    14: Served(0, 5, "k14_sync_group"),
    15: Served(0, 6, "k15_describe_groups"),
    16: Served(0, 5, "k16_list_groups"),
    17: Served(0, 1, "k17_sasl_handshake"),
    18: Served(0, 4, "k18_api_versions"),
    19: Served(2, 7, "k19_create_topics"),
    20: Served(1, 6, "k20_delete_topics"),
    21: Served(0, 2, "k21_delete_records"),
    22: Served(0, 6, "k22_init_producer_id"),
    23: Served(2, 4, "k23_offset_for_leader_epoch"),
    24: Served(0, 5, "k24_add_partitions_to_txn"),
    25: Served(0, 4, "k25_add_offsets_to_txn"),
    26: Served(0, 5, "k26_end_txn"),
    27: Served(1, 2, "k27_write_txn_markers"),
    28: Served(0, 5, "k28_txn_offset_commit"),
    29: Served(1, 3, "k29_describe_acls"),
    30: Served(1, 3, "k30_create_acls"),
    31: Served(1, 3, "k31_delete_acls"),
    32: Served(1, 4, "k32_describe_configs"),
    33: Served(0, 2, "k33_alter_configs"),
    34: Served(1, 2, "k34_alter_replica_log_dirs"),
    35: Served(1, 5, "k35_describe_log_dirs"),
    36: Served(0, 2, "k36_sasl_authenticate"),
    37: Served(0, 3, "k37_create_partitions"),
    42: Served(0, 2, "k42_delete_groups"),
    43: Served(0, 2, "k43_elect_leaders"),
    44: Served(0, 1, "k44_incremental_alter_configs"),
    45: Served(0, 1, "k45_alter_partition_reassignments"),
    46: Served(0, 0, "k46_list_partition_reassignments"),
    47: Served(0, 0, "k47_offset_delete"),
    48: Served(0, 1, "k48_describe_client_quotas"),
    49: Served(0, 1, "k49_alter_client_quotas"),
    50: Served(0, 0, "k50_describe_user_scram_credentials"),
    51: Served(0, 0, "k51_alter_user_scram_credentials"),
    55: Served(0, 2, "k55_describe_quorum"),
    57: Served(0, 2, "k57_update_features"),
    60: Served(0, 2, "k60_describe_cluster"),
    61: Served(0, 0, "k61_describe_producers"),
    65: Served(0, 0, "k65_describe_transactions"),
    66: Served(0, 2, "k66_list_transactions"),
    74: Served(0, 1, "k74_list_config_resources"),
    75: Served(0, 0, "k75_describe_topic_partitions"),
}

WITHOUT_TWO_PHASE: Final = {INIT_PRODUCER_ID: TWO_PHASE_FROM - 1}
"""API key -> newest version while `transaction.two.phase.commit.enable` is false."""
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
"""API keys of requests that do not read logs, so that buffered appends need not be written before they are handled."""
NO_RESPONSE: Final = object()
"""Returned by a handler for a request without a response (Produce with acks=0)."""


class OpaqueResponse:
    """A response that logs and faults do not decode, because that would take too long, or is impossible."""
