"""The log of the groups (`__consumer_offsets`) and the state that it contains.

Each append is applied to the state in the same way as a replay of the log applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from stuntbroker.groups.commits import stored
from stuntbroker.groups.offset_records import OffsetRecord, offset_key, offset_value
from stuntbroker.groups.offset_requests import OffsetCommit
from stuntbroker.groups.offsets import OffsetStore
from stuntbroker.groups.records import GroupRecord, read_record
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    build_batch,
    marker_of,
    read_records,
)
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.primitives import INT64_MAX, Buffer
from stuntbroker.protocol.topic_names import TopicPartition

TIME_MAX_MS: Final = INT64_MAX
LogRecord = tuple[bytearray, bytearray | None]
"""(key, value) of a record; without a value, it is a tombstone."""


class OffsetsLog(Protocol):
    """The partitions of `__consumer_offsets`."""

    partition_count: int

    def append(self, partition: int, batch: bytearray) -> int:
        """Append one batch, as durably as configured; return its base offset. Raises an exception if that fails."""
        ...


class Ledger:
    """Appends groups and offsets to the log, and keeps the offsets in memory. If an append fails, nothing has changed."""

    def __init__(self, log: OffsetsLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._stores: dict[int, OffsetStore] = {}

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return partition_for(group_id, self._log.partition_count)

    def store(self, partition: int) -> OffsetStore:
        """Return the offsets of one partition of `__consumer_offsets`."""
        store = self._stores.get(partition)
        if store is None:
            store = self._stores[partition] = OffsetStore()
        return store

    def forget(self, partition: int) -> None:
        """Drop the offsets of a partition from memory."""
        self._stores.pop(partition, None)

    def store_of(self, group_id: str) -> OffsetStore:
        """Return the offsets of the partition that holds the group."""
        return self.store(self.partition_of(group_id))

    def places_of_topic(self, topic: str) -> list[tuple[str, list[TopicPartition]]]:
        """Return (group id, partitions) for each group that has offsets of the topic."""
        return [item for store in self._stores.values() for item in store.places_of_topic(topic)]

    def replay(
        self, partition: int, batches: Iterable[tuple[BatchHeader, Buffer]]
    ) -> Iterator[OffsetRecord | GroupRecord]:
        """Load the offsets of one partition; yield each record of an offset or a group."""
        store = self.store(partition)
        for header, batch in batches:
            for record in read_records(header, batch, HEADER_SIZE):
                if header.control:
                    marker = marker_of(record)
                    if marker is not None:
                        store.end_txn(header.producer_id, marker.commit)
                    continue
                read = read_record(record.offset, record.key, record.value)
                if read is None:
                    continue  # A record of an unsupported group type.
                if isinstance(read, OffsetRecord):
                    if read.offset is None:
                        store.remove(read.group_id, read.place)
                    else:
                        producer_id = header.producer_id if header.transactional else -1
                        store.put(read.group_id, read.place, read.offset, producer_id)
                yield read

    def append_group(self, group_id: str, record: LogRecord) -> None:
        """Write the record of a group's state to the log. Raises what the log raises."""
        self._log.append(self.partition_of(group_id), build_batch([record], self._now_ms()))

    def append_offsets(
        self,
        group_id: str,
        commits: Sequence[OffsetCommit],
        retention_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """Append committed offsets; with a producer id, as part of its transaction. Raises what the log raises."""
        now_ms = self._now_ms()
        expires_at_ms = -1 if retention_ms < 0 else min(now_ms + retention_ms, TIME_MAX_MS)
        records: list[LogRecord] = [
            (
                offset_key(group_id, (commit.topic, commit.partition)),
                offset_value(stored(commit, -1, now_ms, expires_at_ms)),
            )
            for commit in commits
        ]
        partition = self.partition_of(group_id)
        batch = build_batch(
            records,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            attributes=0 if producer_id < 0 else TRANSACTIONAL,
        )
        base_offset = self._log.append(partition, batch)
        store = self.store(partition)
        for number, commit in enumerate(commits, base_offset):
            offset = stored(commit, number, now_ms, expires_at_ms)
            store.put(group_id, (commit.topic, commit.partition), offset, producer_id)

    def append_tombstones(
        self, group_id: str, places: Sequence[TopicPartition], group: LogRecord | None = None
    ) -> None:
        """Remove the committed and pending offsets of these partitions and append `group`, the tombstone of the group."""
        records: list[LogRecord] = [(offset_key(group_id, place), None) for place in places]
        if group is not None:
            records.append(group)
        if not records:
            return
        partition = self.partition_of(group_id)
        self._log.append(partition, build_batch(records, self._now_ms()))
        store = self.store(partition)
        for place in places:
            store.remove(group_id, place)
