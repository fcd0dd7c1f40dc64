"""Ends a transaction in one of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.storage.marker import Marker
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.transactions.transaction_ports import WithGroups


def end_in_partition(broker: WithGroups, log: PartitionLog, marker: Marker) -> ErrorCode:
    """Append a marker to a partition; in `__consumer_offsets`, also commit or drop pending offsets. Raises StorageError."""
    error = log.append_marker(marker)
    if not error and log.topic == OFFSETS:
        broker.groups.apply_marker(log.index, marker.producer_id, marker.commit)
    return error
