"""The default partitioner of a producer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from stuntbroker.protocol.hashing import partition_of_key


class StickyPartitioner:
    """Default partitioner of Apache Kafka's producer: by the key; without a key, one partition while its batch is open."""

    def __init__(self, has_open_batch: Callable[[str, int], bool]) -> None:
        self._has_open_batch = has_open_batch
        self._current: dict[str, int] = {}

    def choose(
        self, topic: str, key: bytes | None, partitions: Sequence[int], available: Callable[[str], Sequence[int]]
    ) -> int:
        """Return the partition for a record."""
        if key is not None:
            return partitions[partition_of_key(key, len(partitions))]
        partition = self._current.get(topic)
        if partition is None or not self._has_open_batch(topic, partition):
            partition = random.choice(available(topic) or partitions)
            self._current[topic] = partition
        return partition
