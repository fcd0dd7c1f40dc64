"""First versions of requests and responses with a form of their own, where several modules have to tell the forms apart."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    DELETE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)

SEVERAL_FROM: Final = {FIND_COORDINATOR: 4, ADD_PARTITIONS_TO_TXN: 4, OFFSET_FETCH: 8}
"""API -> first version with several keys, transactions or groups in one request."""
TOPIC_IDS_FROM: Final = {
    PRODUCE: 13,
    FETCH: 13,
    METADATA: 12,
    OFFSET_COMMIT: 10,
    OFFSET_FETCH: 10,
    DELETE_TOPICS: 6,
}
"""API -> first version with ids of topics."""
PRODUCE_IDS_FROM: Final = TOPIC_IDS_FROM[PRODUCE]
PRODUCE_NAMES_MAX: Final = PRODUCE_IDS_FROM - 1
"""Last version of Produce with names of topics."""
TWO_PHASE_FROM: Final = 6
"""First version of InitProducerId for two-phase commit (KIP-939)."""
PRODUCE_V2_FROM: Final = 12
OFFSETS_V2_FROM: Final = 5
END_TXN_V2_FROM: Final = 5
"""First versions of Produce, TxnOffsetCommit and EndTxn with transaction version 2 (KIP-890)."""
GROUP_ERROR_FROM: Final = 2
"""First version of OffsetFetch with an error for the whole group."""
GROUP_ID_NOT_FOUND_FROM: Final = 9
"""First version of OffsetCommit with GROUP_ID_NOT_FOUND for a group that does not exist."""
CREATED_TOPICS_DESCRIBED_FROM: Final = 5
"""First version of CreateTopics whose response describes the new topics."""
NO_PROTOCOL_FROM: Final = 7
"""First version of JoinGroup whose response may have a null protocol."""
RELEASE: Final = "4.3"
"""The release of Apache Kafka whose APIs a broker serves."""
OLDER_RELEASES: Final = ("2.1", "2.5", "2.8", "3.3", "3.6", "3.9", "4.0")
"""Releases that a listener can imitate."""
