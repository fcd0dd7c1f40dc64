"""Numbers in fields of requests that stand for something, as Kafka gives them."""

from __future__ import annotations

from typing import Final

OF_GROUP: Final = 0
OF_TRANSACTION: Final = 1
OF_SHARE_GROUP: Final = 2
"""FindCoordinator: type of the key whose coordinator is wanted."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Fetch and ListOffsets: isolation level."""
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""ListOffsets: timestamps that stand for a place in the log; MAX_TIMESTAMP for the record with the largest (KIP-734)."""
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
"""Produce: who must have written the batches before the response; with ACKS_NONE there is no response."""
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
"""IncrementalAlterConfigs: what to do with a property (KIP-339)."""
MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""DescribeClientQuotas: entities with this name, the default entity, or every entity that has a name."""
