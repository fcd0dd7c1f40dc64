"""The partitions of topics according to aiokafka's metadata, cached: every record that is sent asks for them."""

from __future__ import annotations

from typing import Any


class KnownPartitions:
    """Partitions by topic. Any thread may ask, while aiokafka's client refreshes its metadata in another."""

    __slots__ = ("_cached", "_cluster")

    def __init__(self, cluster: Any) -> None:
        """`cluster`: aiokafka's ClusterMetadata."""
        self._cluster = cluster
        self._cached: dict[str, tuple[float, tuple[int, ...]]] = {}
        """Topic -> time of the refresh, and the partitions that were known then."""

    def of(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of a topic, in order; none while its metadata is not known."""
        # The time is read first, so that nothing is cached as newer than it is.
        refreshed_ms: float = self._cluster._last_successful_refresh_ms
        cached = self._cached.get(topic)
        if cached is not None and cached[0] == refreshed_ms:
            return cached[1]
        partitions = tuple(sorted(self._cluster.partitions_for_topic(topic) or ()))
        if partitions:
            self._cached[topic] = refreshed_ms, partitions
        else:
            self._cached.pop(topic, None)
        return partitions
