"""Committed and pending offsets of the groups in one partition of `__consumer_offsets`.

A transactional offset is pending under its producer id until the marker is appended. Of two commits for a
partition, the one with the later record in the log counts, regardless of the order of their markers:
compaction keeps the last record of a key, and a replay must restore the same state.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator
from typing import NamedTuple

from stuntbroker.groups.config import GroupConfig
from stuntbroker.protocol.topic_names import TopicPartition


class StoredOffset(NamedTuple):
    """A committed or pending offset. Times are in ms since 1970."""

    record_offset: int
    """Offset of its record in the `__consumer_offsets` partition."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int
    """Set if an old client requested a retention time; -1 if `offsets.retention.minutes` applies."""

    topic_id: bytes


class OffsetStore:
    """The offsets of one partition. `put`, `remove` and `end_txn` apply the records of the log in order."""

    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], StoredOffset]] = {}
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}
        """Group -> partition -> ids of producers with a pending offset for it. Empty collections are removed."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetStore):
            return NotImplemented
        same = self._committed == other._committed and self._pending == other._pending
        return same and self._open == other._open

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetStore(committed={self._committed!r}, pending={self._pending!r})"

    def put(self, group_id: str, place: TopicPartition, offset: StoredOffset, producer_id: int = -1) -> None:
        """Store an offset whose record was appended; with a producer id, as a pending offset of its transaction."""
        if producer_id < 0:
            self._committed.setdefault(group_id, {})[place] = offset
            return
        self._pending.setdefault(producer_id, {})[group_id, place] = offset
        self._open.setdefault(group_id, {}).setdefault(place, set()).add(producer_id)

    def remove(self, group_id: str, place: TopicPartition) -> None:
        """Remove the committed and pending offsets of a partition, after a tombstone was appended."""
        offsets = self._committed.get(group_id)
        if offsets is not None and offsets.pop(place, None) is not None and not offsets:
            del self._committed[group_id]
        places = self._open.get(group_id)
        if places is None:
            return
        for producer_id in places.pop(place, ()):
            pending = self._pending[producer_id]
            del pending[group_id, place]
            if not pending:
                del self._pending[producer_id]
        if not places:
            del self._open[group_id]

    def end_txn(self, producer_id: int, commit: bool) -> None:
        """Commit or drop a producer's pending offsets, if there are any, after a marker was appended."""
        for (group_id, place), offset in self._pending.pop(producer_id, {}).items():
            places = self._open[group_id]
            places[place].discard(producer_id)
            if not places[place]:
                del places[place]
                if not places:
                    del self._open[group_id]
            if commit:
                offsets = self._committed.setdefault(group_id, {})
                present = offsets.get(place)
                if present is None or offset.record_offset > present.record_offset:
                    offsets[place] = offset

    def get(self, group_id: str, place: TopicPartition) -> StoredOffset | None:
        """Return the committed offset of a partition, None if there is none."""
        offsets = self._committed.get(group_id)
        return None if offsets is None else offsets.get(place)

    def snapshot(self, group_id: str) -> OffsetStore:
        """Return a copy of the offsets of a group, to look at while the store changes, without the pending offsets' values."""
        snapshot = OffsetStore()
        snapshot._committed = {group_id: dict(self._committed.get(group_id, {}))}
        snapshot._open = {group_id: dict(self._open.get(group_id, {}))}
        return snapshot

    def committed(self, group_id: str) -> ItemsView[TopicPartition, StoredOffset]:
        """Return all committed offsets of a group, by their places."""
        return self._committed.get(group_id, {}).items()

    def is_pending(self, group_id: str, place: TopicPartition) -> bool:
        """Whether an open transaction has an offset for this partition."""
        places = self._open.get(group_id)
        return places is not None and place in places

    def pending_producers(self, group_id: str, places: Iterable[TopicPartition]) -> set[int]:
        """Return the ids of producers whose open transactions have offsets for these partitions."""
        waiting = self._open.get(group_id, {})
        return {producer_id for place in places for producer_id in waiting.get(place, ())}

    def pending_of(self, group_id: str) -> list[tuple[TopicPartition, int, StoredOffset]]:
        """Return (partition, producer id, offset) of each pending offset of a group, sorted."""
        return sorted(
            (place, producer_id, offset)
            for producer_id, offsets in self._pending.items()
            for (group, place), offset in offsets.items()
            if group == group_id
        )

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has an offset of this group."""
        return group_id in self._open

    def has_any(self, group_id: str, place: TopicPartition) -> bool:
        """Whether there is a committed or pending offset for this partition."""
        return self.get(group_id, place) is not None or self.is_pending(group_id, place)

    def places(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions for which the group has an offset, committed or pending."""
        return list({**self._committed.get(group_id, {}), **self._open.get(group_id, {})})

    def places_of_topic(self, topic: str) -> Iterator[tuple[str, list[TopicPartition]]]:
        """Yield each group with offsets in the topic, and the partitions that they are for."""
        for group_id in [*self._committed, *(self._open.keys() - self._committed.keys())]:
            places = [place for place in self.places(group_id) if place[0] == topic]
            if places:
                yield group_id, places


class Expiry(NamedTuple):
    """How the offsets of a group expire."""

    since_ms: int | None
    """When their retention began, in ms since 1970; None if that of each offset began with its commit."""

    is_subscribed_to: Callable[[str], bool]
    """Whether the group uses a topic, whose offsets do not expire then."""


def expired_places(
    store: OffsetStore, group_id: str, expiry: Expiry, now_ms: int, config: GroupConfig
) -> list[TopicPartition]:
    """Return the partitions whose committed offset has expired."""
    places = []
    for place, offset in store.committed(group_id):
        if offset.expires_at_ms >= 0:
            expired = now_ms >= offset.expires_at_ms
        else:
            start_ms = offset.committed_at_ms if expiry.since_ms is None else expiry.since_ms
            expired = now_ms - start_ms >= config.offsets_retention_ms
        # A partition with a pending offset is kept until the transaction ends.
        if expired and not expiry.is_subscribed_to(place[0]) and not store.is_pending(group_id, place):
            places.append(place)
    return places
