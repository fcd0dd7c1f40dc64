"""Read and decode partitions: up to their current end, for small topics, or continuously.

The reader needs only a `Cluster` on plain sockets, so that a command which reads a few records starts quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import BrokerError, ConnectionFailed, TimedOut, check
from stuntbroker.protocol.api_keys import FETCH, LIST_OFFSETS
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Headers,
    marker_of,
    read_header,
    read_records,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.fetch_response import FetchResponse, PartitionData
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.list_offsets_response import ListOffsetsResponse
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.versions import TOPIC_IDS_FROM

FETCH_NAMES_MAX: Final = TOPIC_IDS_FROM[FETCH] - 1
"""Later versions name topics by id."""
FETCH_BYTES_MAX: Final = 8 << 20
POLL_INTERVAL_S: Final = 0.02
OPENED_SIZE_MAX: Final = 1 << 30
"""Maximum bytes of a batch after decompression."""


class Row(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Marker(NamedTuple):
    """A transaction marker, read from a control record."""

    offset: int
    timestamp_ms: int
    is_commit: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class Batch(NamedTuple):
    """A batch as it was read: records, or one marker."""

    header: BatchHeader
    rows: list[Row]
    """Empty for a control batch, and with READ_COMMITTED for a batch of an aborted transaction."""
    marker: Marker | None


def list_offset(cluster: Cluster, topic: str, partition: int, timestamp_ms: int, isolation: int) -> int:
    """Return the first offset with at least this timestamp, -1 if there is none; EARLIEST and LATEST ask for the log's ends."""
    return cluster.retrying(lambda: _list_offset(cluster, topic, partition, timestamp_ms, isolation))


def end_offset(cluster: Cluster, topic: str, partition: int, isolation: int = READ_COMMITTED) -> int:
    """Return the last stable offset, or with READ_UNCOMMITTED the high watermark: the offset after the last readable one."""
    return list_offset(cluster, topic, partition, LATEST, isolation)


def read_partition(cluster: Cluster, topic: str, partition: int, isolation: int = READ_COMMITTED) -> list[Row]:
    """Return all records up to the end offset at the time of the call; READ_COMMITTED leaves out aborted ones."""
    start = list_offset(cluster, topic, partition, EARLIEST, isolation)
    return read_from(cluster, topic, partition, start, isolation)[0]


def read_from(
    cluster: Cluster, topic: str, partition: int, start: int, isolation: int = READ_COMMITTED
) -> tuple[list[Row], int]:
    """Return the records from `start` to the end offset at the time of the call, and that end offset."""
    at, rows = start, list[Row]()
    end = end_offset(cluster, topic, partition, isolation)
    while at < end:
        part = cluster.retrying(lambda: _fetch(cluster, topic, partition, at, isolation))  # noqa: B023
        before = at
        for batch in read_batches(part, isolation):
            rows += [row for row in batch.rows if before <= row.offset < end]
            at = max(at, batch.header.next_offset)
        if at == before:
            raise ConnectionFailed(
                f"{topic}-{partition}: no complete batch at offset {at}, although the end offset is {end}"
            )
    return rows, end


class LastValues:
    """Last committed value of each key of a partition, for compacted topics; each read continues where the last one ended."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self.values: dict[bytes, bytes] = {}
        """Key -> last value, without keys deleted by a tombstone."""
        self._cluster = cluster
        self._where = topic, partition
        self._next: int | None = None

    def refresh(self) -> None:
        """Read everything that is committed at the time of the call. Raises TimedOut.

        Waits until open transactions of other producers end, because they hold back the last stable offset.
        """
        cluster, (topic, partition) = self._cluster, self._where
        written, deadline = end_offset(cluster, topic, partition, READ_UNCOMMITTED), cluster.start_operation()
        while (stable := end_offset(cluster, topic, partition)) < written:
            if not deadline.left_s():
                raise TimedOut(f"{topic}-{partition} cannot be read beyond offset {stable}: a transaction is open")
            cluster.pause(POLL_INTERVAL_S)
        self.read_on()

    def read_on(self) -> None:
        """Read committed records up to the last stable offset. Raises NotFound."""
        cluster, (topic, partition) = self._cluster, self._where
        if self._next is None:
            self._next = list_offset(cluster, topic, partition, EARLIEST, READ_COMMITTED)
        rows, self._next = read_from(cluster, topic, partition, self._next)
        for row in rows:
            if row.key is None:
                continue
            if row.value is None:
                self.values.pop(row.key, None)
            else:
                self.values[row.key] = row.value


def _list_offset(cluster: Cluster, topic: str, partition: int, which: int, isolation: int) -> int:
    node_id = cluster.leader(topic, partition)
    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, which)])])
    answer = cluster.ask(node_id, LIST_OFFSETS, request, ListOffsetsResponse, least=2)
    part = answer.topics[0].partitions[0]
    check(f"ListOffsets of {topic}-{partition}", part.error_code)
    return part.offset


def _fetch(cluster: Cluster, topic: str, partition: int, offset: int, isolation: int) -> PartitionData:
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


def read_batches(part: PartitionData, isolation: int) -> Iterator[Batch]:
    """Yield every complete batch of a Fetch response. Raises ConnectionFailed for invalid data.

    An aborted transaction is identified by producer id and first offset, and ends at the next marker of that producer.
    """
    aborted = sorted(part.aborted_transactions or (), key=lambda item: item.first_offset)
    dropped: set[int] = set()
    data, at = memoryview(part.records or b""), 0
    while len(data) - at >= HEADER_SIZE:
        header = read_header(data, at)
        if header.magic != 2:
            raise BrokerError(f"a batch of format {header.magic}", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        if header.length + LOG_OVERHEAD < HEADER_SIZE:
            raise ConnectionFailed(f"the batch at offset {header.base_offset} has a length of {header.length}")
        if at + header.size > len(data):
            return
        while aborted and aborted[0].first_offset <= header.base_offset:
            dropped.add(aborted.pop(0).producer_id)
        batch = data[at : at + header.size]
        at += header.size
        if header.control:
            dropped.discard(header.producer_id)
            yield Batch(header, [], _marker(header, batch))
        elif isolation == READ_COMMITTED and header.transactional and header.producer_id in dropped:
            yield Batch(header, [], None)
        else:
            yield Batch(header, _rows(header, batch), None)


def _rows(header: BatchHeader, batch: memoryview) -> list[Row]:
    payload = batch[HEADER_SIZE:]
    try:
        if header.codec:
            from stuntbroker.protocol.batches.compression import decompress

            payload = memoryview(decompress(header.codec, payload, OPENED_SIZE_MAX))
        return [Row(*record) for record in read_records(header, payload)]
    except ValueError as fault:  # Also DecodeError and CompressionError.
        raise ConnectionFailed(f"the batch at offset {header.base_offset} cannot be read: {fault}") from fault


def _marker(header: BatchHeader, batch: memoryview) -> Marker | None:
    """Decode a control batch; return None if it is not a transaction marker."""
    try:
        record = next(read_records(header, batch, HEADER_SIZE), None)
    except DecodeError as fault:
        raise ConnectionFailed(f"the control batch at offset {header.base_offset} cannot be read: {fault}") from fault
    ending = None if record is None else marker_of(record)
    if record is None or ending is None:
        return None
    is_commit, coordinator_epoch = ending
    return Marker(
        record.offset, record.timestamp, is_commit, header.producer_id, header.producer_epoch, coordinator_epoch
    )


class Tail:
    """Continuous reader of several partitions, from given offsets.

    `positions`: (topic, partition) -> next offset; `poll` advances them.
    """

    def __init__(self, cluster: Cluster, positions: Mapping[tuple[str, int], int], isolation: int) -> None:
        self.positions = dict(positions)
        self._cluster = cluster
        self._isolation = isolation

    def poll(self, wait_ms: int) -> list[tuple[str, int, Batch]]:
        """Return new batches as (topic, partition, batch); wait up to `wait_ms` for them. Raises ClientError.

        The first batch of a partition may begin below the position; its rows are those from the position on.
        """
        return self._cluster.retrying(lambda: self._poll(wait_ms))

    def _poll(self, wait_ms: int) -> list[tuple[str, int, Batch]]:
        by_leader: dict[int, list[tuple[str, int]]] = {}
        for known in self._cluster.partitions({topic for topic, _ in self.positions}):
            if (known.topic, known.partition) in self.positions:
                if known.leader_id < 0:
                    raise BrokerError(f"partition {known}", ErrorCode.LEADER_NOT_AVAILABLE)
                by_leader.setdefault(known.leader_id, []).append((known.topic, known.partition))
        polled, advanced = [], {}
        for node_id, places in by_leader.items():
            for topic, partition, part in self._fetch(node_id, places, wait_ms // len(by_leader)):
                position = self.positions[topic, partition]
                for batch in read_batches(part, self._isolation):
                    rows = [row for row in batch.rows if row.offset >= position]
                    polled.append((topic, partition, batch._replace(rows=rows)))
                    advanced[topic, partition] = batch.header.next_offset
        self.positions |= advanced  # Only now: after an error above, everything is fetched again.
        return polled

    def _fetch(
        self, node_id: int, places: list[tuple[str, int]], wait_ms: int
    ) -> Iterator[tuple[str, int, PartitionData]]:
        by_topic: dict[str, list[FetchPartition]] = {}
        for topic, partition in places:
            at = self.positions[topic, partition]
            by_topic.setdefault(topic, []).append(
                FetchPartition(partition, -1, at, partition_max_bytes=FETCH_BYTES_MAX)
            )
        topics = [FetchTopic(topic, partitions=partitions) for topic, partitions in by_topic.items()]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation,
            topics=topics,
        )
        answer = self._cluster.ask(node_id, FETCH, request, FetchResponse, most=FETCH_NAMES_MAX)
        check(f"Fetch from broker {node_id}", answer.error_code)
        for fetched in answer.responses:
            for part in fetched.partitions:
                check(f"Fetch of {fetched.topic}-{part.partition_index}", part.error_code)
                yield fetched.topic, part.partition_index, part
