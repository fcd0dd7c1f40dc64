"""Read and decode partitions: up to their current end, for small topics, or continuously.

The reader needs only a `Cluster` on plain sockets, so that a command which reads a few records starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import (
    FETCH_NAMES_MAX,
    FetchSizes,
    TopicPartition,
    by_leader,
    end_offset,
    fetch_request,
    fetched_partitions,
    list_offset,
)
from stuntbroker.client.errors import BrokerError, ConnectionFailed, TimedOut
from stuntbroker.protocol.api_keys import FETCH
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Headers,
    marker_of,
    read_header,
    read_records,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_response import FetchResponse, PartitionData
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.request_values import EARLIEST, READ_COMMITTED, READ_UNCOMMITTED

SIZES: Final = FetchSizes(8 << 20, 8 << 20)
"""Limits of each Fetch."""
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
        part = cluster.retrying(lambda: _fetch(cluster, TopicPartition(topic, partition), at, isolation))  # noqa: B023
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


def _fetch(cluster: Cluster, place: TopicPartition, offset: int, isolation: int) -> PartitionData:
    wanted = {place: offset}
    request = fetch_request(wanted, isolation, SIZES)
    answer = cluster.ask(cluster.leader(*place), FETCH, request, FetchResponse, most=FETCH_NAMES_MAX)
    for _, part in fetched_partitions(answer, wanted):
        return part
    raise BrokerError(f"Fetch of {place}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def read_batches(part: PartitionData, isolation: int) -> Iterator[Batch]:
    """Yield every complete batch of a Fetch response. Raises ConnectionFailed for invalid data.

    An aborted transaction is identified by producer id and first offset, and ends at the next marker of that producer.
    """
    aborted = sorted(part.aborted_transactions or (), key=lambda item: item.first_offset)
    dropped: set[int] = set()
    data, at = memoryview(part.records or b""), 0
    while len(data) - at >= HEADER_SIZE:
        header = read_header(data, at)
        if header.magic != MAGIC:
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

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[tuple[str, int], int],
        isolation: int,
        reset: Callable[[TopicPartition, int], int] | None = None,
    ) -> None:
        """`reset`: returns where to read on in a partition that does not have an offset.

        Without it, that is an error, and so is a partition that does not exist, which is awaited otherwise.
        """
        self.positions = dict(positions)
        self._cluster = cluster
        self._isolation = isolation
        self._reset = reset

    def poll(self, wait_ms: int) -> list[tuple[str, int, Batch]]:
        """Return new batches as (topic, partition, batch); wait up to `wait_ms` for them. Raises ClientError.

        The first batch of a partition may begin below the position; its rows are those from the position on.
        """
        return self._cluster.retrying(lambda: self._poll(wait_ms))

    def _poll(self, wait_ms: int) -> list[tuple[str, int, Batch]]:
        places = [TopicPartition(*place) for place in self.positions]
        grouped = by_leader(self._cluster, places, leaves_out_missing=self._reset is not None) if places else {}
        if not grouped:
            self._cluster.pause(wait_ms / 1000)
        polled, advanced = [], {}
        out_of_range: list[TopicPartition] = []
        for node_id, led in grouped.items():
            wanted = {place: self.positions[place] for place in led}
            sizes = SIZES._replace(wait_ms_max=wait_ms // len(grouped))
            request = fetch_request(wanted, self._isolation, sizes)
            answer = self._cluster.ask(node_id, FETCH, request, FetchResponse, most=FETCH_NAMES_MAX)
            for (topic, partition), part in fetched_partitions(answer, wanted, self._reset and out_of_range.append):
                position = self.positions[topic, partition]
                for batch in read_batches(part, self._isolation):
                    rows = [row for row in batch.rows if row.offset >= position]
                    polled.append((topic, partition, batch._replace(rows=rows)))
                    advanced[topic, partition] = batch.header.next_offset
        for place in out_of_range:
            assert self._reset is not None
            advanced[place] = self._reset(place, self.positions[place])
        self.positions |= advanced  # Only now: after an error above, everything is fetched again.
        return polled
