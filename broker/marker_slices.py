"""How many markers of a transaction of very many partitions are written before others have their turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from stuntbroker.coordinator.actor import MARKERS_IN_A_SLICE_MAX
from stuntbroker.coordinator.state import TopicPartition
from stuntbroker.storage.partition import PartitionLog

COST_OF_FILES: Final = 10
"""Cost of a marker in a partition that has no files yet. A marker in any other partition costs 1."""


def next_slice(
    logs: Mapping[TopicPartition, PartitionLog], partitions: Iterator[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions whose markers are written in one turn of the event loop."""
    chosen: list[TopicPartition] = []
    left = MARKERS_IN_A_SLICE_MAX
    for partition in partitions:
        chosen.append(partition)
        log = logs.get(partition)
        left -= 1 if log is None or log.segments else COST_OF_FILES
        if left <= 0:
            break
    return chosen
