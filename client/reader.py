"""What is in a partition, read from its start to its end as it is now: for small topics, and for those who check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from stuntbroker.client.channel import ChannelCluster
from stuntbroker.client.errors import BrokerError, ConnectionFailed, TimedOut, check
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.fetch_response import FetchResponse, PartitionData
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.list_offsets_response import ListOffsetsResponse

FETCH: Final = 1
LIST_OFFSETS: Final = 2
FETCH_NAMES_MAX: Final = 12
"""Later versions name topics by id."""
LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
FETCH_BYTES_MAX: Final = 8 << 20
LOOK_AGAIN_S: Final = 0.02


class Row(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def end_offset(cluster: ChannelCluster, topic: str, partition: int, isolation: int = READ_COMMITTED) -> int:
    """The last stable offset, or with READ_UNCOMMITTED the high watermark: the offset behind the last one to be read."""
    return cluster.retrying(lambda: _offset(cluster, topic, partition, LATEST, isolation))


def read_partition(cluster: ChannelCluster, topic: str, partition: int, isolation: int = READ_COMMITTED) -> list[Row]:
    """All records up to the offset that was the end when it began. What was aborted is left out with READ_COMMITTED."""
    start = cluster.retrying(lambda: _offset(cluster, topic, partition, EARLIEST, isolation))
    return read_from(cluster, topic, partition, start, isolation)[0]


def read_from(
    cluster: ChannelCluster, topic: str, partition: int, start: int, isolation: int = READ_COMMITTED
) -> tuple[list[Row], int]:
    """The records from this offset on, and the offset that was the end when it began."""
    at, rows = start, list[Row]()
    end = end_offset(cluster, topic, partition, isolation)
    while at < end:
        part = cluster.retrying(lambda: _fetch(cluster, topic, partition, at, isolation))  # noqa: B023
        before = at
        for next_offset, rows_of_batch in _batches(part, isolation):
            rows += [row for row in rows_of_batch if before <= row.offset < end]
            at = max(at, next_offset)
        if at == before:
            raise ConnectionFailed(f"{topic}-{partition}: no whole batch at offset {at}, though {end} is its end")
    return rows, end


class LastValues:
    """The committed value that each key of a partition had last: for a compacted topic, read on from where it was."""

    def __init__(self, cluster: ChannelCluster, topic: str, partition: int) -> None:
        self.values: dict[bytes, bytes] = {}
        """Without the keys that were deleted."""
        self._cluster = cluster
        self._where = topic, partition
        self._next: int | None = None

    def refresh(self) -> None:
        """Everything that is committed by now. Raises TimedOut.

        What is behind an open transaction of somebody else may be committed, and is hidden: that one is waited for.
        """
        cluster, (topic, partition) = self._cluster, self._where
        written, deadline = end_offset(cluster, topic, partition, READ_UNCOMMITTED), cluster.start_operation()
        while (stable := end_offset(cluster, topic, partition)) < written:
            if not deadline.left_s():
                raise TimedOut(
                    f"{topic}-{partition} cannot be read behind offset {stable}: a transaction is open there"
                )
            cluster.pause(LOOK_AGAIN_S)
        self.read_on()

    def read_on(self) -> None:
        """What is committed by now, as far as nobody's open transaction hides it. Raises NotFound."""
        cluster, (topic, partition) = self._cluster, self._where
        if self._next is None:
            self._next = cluster.retrying(lambda: _offset(cluster, topic, partition, EARLIEST, READ_COMMITTED))
        rows, self._next = read_from(cluster, topic, partition, self._next)
        for row in rows:
            if row.key is None:
                continue
            if row.value is None:
                self.values.pop(row.key, None)
            else:
                self.values[row.key] = row.value


def _offset(cluster: ChannelCluster, topic: str, partition: int, which: int, isolation: int) -> int:
    node_id = cluster.leader(topic, partition)
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, which)])])
    answer = cluster.ask(node_id, LIST_OFFSETS, request, ListOffsetsResponse, least=2)
    part = answer.topics[0].partitions[0]
    check(f"ListOffsets of {topic}-{partition}", part.error_code)
    return part.offset


def _fetch(cluster: ChannelCluster, topic: str, partition: int, offset: int, isolation: int) -> PartitionData:
    node_id = cluster.leader(topic, partition)
    wanted = FetchPartition(partition, -1, offset, partition_max_bytes=FETCH_BYTES_MAX)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=isolation,
        topics=[FetchTopic(topic, partitions=[wanted])],
    )
    answer = cluster.ask(node_id, FETCH, request, FetchResponse, most=FETCH_NAMES_MAX)
    check(f"Fetch of {topic}-{partition}", answer.error_code)
    if not answer.responses:
        raise BrokerError(f"Fetch of {topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    part = answer.responses[0].partitions[0]
    check(f"Fetch of {topic}-{partition} at offset {offset}", part.error_code)
    return part


def _batches(part: PartitionData, isolation: int) -> Iterator[tuple[int, list[Row]]]:
    """(offset behind it, records that count) of every whole batch.

    An aborted transaction is named by its producer id and first offset, and goes until the marker of that producer.
    """
    aborted = sorted(part.aborted_transactions or (), key=lambda item: item.first_offset)
    gone: set[int] = set()
    records: Any = MemoryRecords(bytes(part.records or b""))
    while records.has_next():
        batch = records.next_batch()
        while aborted and aborted[0].first_offset <= batch.base_offset:
            gone.add(aborted.pop(0).producer_id)
        if batch.is_control_batch:
            gone.discard(batch.producer_id)
            yield batch.next_offset, []
        elif isolation == READ_COMMITTED and batch.is_transactional and batch.producer_id in gone:
            yield batch.next_offset, []
        else:
            yield batch.next_offset, [Row(item.offset, item.timestamp, item.key, item.value) for item in batch]
