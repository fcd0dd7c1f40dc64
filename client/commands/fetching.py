"""Topics, offsets, and raw record batches of partitions: the requests that all readers send."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import REQUEST_S_MAX, Pending
from stuntbroker.client.errors import BrokerError, ConnectionFailed, NotFound, check
from stuntbroker.protocol.api_keys import FETCH, LIST_OFFSETS, METADATA
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.fetch_response import FetchResponse, PartitionData
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.list_offsets_response import ListOffsetsResponse
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.metadata_response import MetadataResponse
from stuntbroker.protocol.request_values import LATEST, READ_COMMITTED
from stuntbroker.protocol.versions import TOPIC_IDS_FROM

FETCH_NAMES_MAX: Final = TOPIC_IDS_FROM[FETCH] - 1
"""Later versions name topics by id."""
MISSING_S: Final = 2.0
"""A partition missing for this long counts as deleted; brokers learn of a new partition at different times."""
POLL_INTERVAL_S: Final = 0.2
"""Pause between two looks for a missing partition."""
ISOLATION_FROM: Final = 2
"""First version of ListOffsets with an isolation level."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Topic(NamedTuple):
    """The partitions of a topic, in order."""

    partitions: tuple[TopicPartition, ...]
    is_internal: bool


class FetchSizes(NamedTuple):
    """Limits of one Fetch: sizes in bytes, which the first batch may exceed, and how long the broker waits for records."""

    bytes_max: int
    partition_bytes_max: int
    bytes_min: int = 1
    wait_ms_max: int = 500


def find_topics(cluster: Cluster, names: Collection[str] | None) -> dict[str, Topic]:
    """Return those of these topics that exist (None: all topics). Raises BrokerError, for example for an invalid name."""

    def attempt() -> dict[str, Topic]:
        wanted = None if names is None else [MetadataRequestTopic(name=item) for item in names]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer = cluster.ask(cluster.controller_id(), METADATA, request, MetadataResponse, least=1)
        topics = {}
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(f"topic {name!r}", topic.error_code)
            partitions = (TopicPartition(name, item.partition_index) for item in topic.partitions)
            topics[name] = Topic(tuple(sorted(partitions)), bool(topic.is_internal))
        return topics

    return cluster.retrying(attempt)


def list_offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, int]:
    """Return for each partition the first offset whose timestamp is at least the wanted one (ms since 1970), or -1.

    EARLIEST stands for the log start offset, LATEST for the last stable offset, or with READ_UNCOMMITTED
    the high watermark. One request goes to each leader. Raises NotFound.
    """

    def attempt() -> dict[TopicPartition, int]:
        offsets = {}
        for node_id, mine in by_leader(cluster, wanted).items():
            by_topic = defaultdict(list)
            for place in mine:
                by_topic[place.topic].append(ListOffsetsPartition(place.partition, -1, wanted[place]))
            topics = [ListOffsetsTopic(topic, partitions) for topic, partitions in by_topic.items()]
            request = ListOffsetsRequest(-1, isolation, topics)
            answer = cluster.ask(node_id, LIST_OFFSETS, request, ListOffsetsResponse, ISOLATION_FROM)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    check(f"ListOffsets of {where}", part.error_code)
                    offsets[where] = part.offset
        if offsets.keys() != wanted.keys():
            raise ConnectionFailed("the response to ListOffsets lacks partitions of the request")
        return offsets

    return cluster.retrying(attempt) if wanted else {}


def list_offset(cluster: Cluster, topic: str, partition: int, timestamp_ms: int, isolation: int) -> int:
    """Return the offset that `list_offsets` returns for one partition."""
    where = TopicPartition(topic, partition)
    return list_offsets(cluster, {where: timestamp_ms}, isolation)[where]


def end_offset(cluster: Cluster, topic: str, partition: int, isolation: int = READ_COMMITTED) -> int:
    """Return the last stable offset, or with READ_UNCOMMITTED the high watermark: the offset after the last readable one."""
    return list_offset(cluster, topic, partition, LATEST, isolation)


def fetch_request(wanted: Mapping[TopicPartition, int], isolation: int, sizes: FetchSizes) -> FetchRequest:
    """Return the Fetch from these offsets of partitions that one broker leads."""
    by_topic = defaultdict(list)
    for place, offset in wanted.items():
        by_topic[place.topic].append(
            FetchPartition(place.partition, -1, offset, partition_max_bytes=sizes.partition_bytes_max)
        )
    return FetchRequest(
        max_wait_ms=sizes.wait_ms_max,
        min_bytes=sizes.bytes_min,
        max_bytes=sizes.bytes_max,
        isolation_level=isolation,
        topics=[FetchTopic(topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )


def fetched_partitions(
    answer: FetchResponse,
    wanted: Mapping[TopicPartition, int],
    on_out_of_range: Callable[[TopicPartition], object] | None = None,
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Yield the partitions of the response to a `fetch_request`. Raises BrokerError for one with an error.

    `on_out_of_range`: called with a partition that does not have the offset, instead.
    """
    check("Fetch", answer.error_code)
    for topic in answer.responses:
        for part in topic.partitions:
            place = TopicPartition(topic.topic, part.partition_index)
            if on_out_of_range is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                on_out_of_range(place)
                continue
            check(f"Fetch of {place} at offset {wanted.get(place)}", part.error_code)
            yield place, part


def by_leader(
    cluster: Cluster, wanted: Iterable[TopicPartition], *, leaves_out_missing: bool = False
) -> dict[int, list[TopicPartition]]:
    """Group partitions by leader id. Raises NotFound, or a retriable BrokerError while a partition has no leader.

    `leaves_out_missing`: partitions that do not exist are left out.
    """
    try:
        known = cluster.partitions({partition.topic for partition in wanted})
    except NotFound:
        if not leaves_out_missing:
            raise
        known = cluster.partitions(None)
    leaders = {TopicPartition(each.topic, each.partition): each.leader_id for each in known}
    grouped = defaultdict(list)
    for partition in sorted(wanted):
        if partition not in leaders and leaves_out_missing:
            continue
        if partition not in leaders:
            raise NotFound(f"there is no partition {partition}")
        if leaders[partition] < 0:
            raise BrokerError(f"partition {partition}", ErrorCode.LEADER_NOT_AVAILABLE)
        grouped[leaders[partition]].append(partition)
    return grouped


class PartitionFetch:
    """Consecutive fetches from one partition; the next may be in flight while the last response is processed."""

    def __init__(self, cluster: Cluster, where: TopicPartition, isolation: int, sizes: FetchSizes) -> None:
        self._cluster = cluster
        self._where = where
        self._isolation = isolation
        self._sizes = sizes
        self._leader_id: int | None = None
        self._ahead: tuple[int, Pending[FetchResponse]] | None = None

    def prefetch(self, offset: int, bytes_max: int) -> None:
        """Send the Fetch for `offset` without waiting for the response. If sending fails, `take` sends it again."""
        try:
            with self._cluster.exclusive_use():
                self._cluster.start_operation()
                self._ahead = offset, self._send(offset, bytes_max)
        except ConnectionFailed:
            self._ahead = None

    def take(self, offset: int, bytes_max: int) -> PartitionData:
        """Return the response for `offset`, which may have no records. Retriable errors are retried.

        `bytes_max` limits this response, in addition to the sizes of all fetches. Raises NotFound if the partition
        is gone, BrokerError with OFFSET_OUT_OF_RANGE, TimedOut.
        """

        def attempt() -> PartitionData:
            ahead, self._ahead = self._ahead, None
            pending = ahead[1] if ahead is not None and ahead[0] == offset else self._send(offset, bytes_max)
            try:
                return self._answer(offset, pending)
            except BaseException:
                self._leader_id = None
                raise

        return self._cluster.retrying(attempt)

    def _send(self, offset: int, bytes_max: int) -> Pending[FetchResponse]:
        topic, partition = self._where
        if self._leader_id is None:
            self._leader_id = self._cluster.leader(topic, partition)
        connection = self._cluster.connection(self._leader_id)
        sizes = self._sizes._replace(partition_bytes_max=min(self._sizes.partition_bytes_max, bytes_max))
        request = fetch_request({self._where: offset}, self._isolation, sizes)
        version = connection.version(FETCH, most=FETCH_NAMES_MAX)
        return connection.send(FETCH, version, request, FetchResponse, self._cluster.deadline.within(REQUEST_S_MAX))

    def _answer(self, offset: int, pending: Pending[FetchResponse]) -> PartitionData:
        answer = pending.result(self._cluster.deadline.within(REQUEST_S_MAX))
        for _, part in fetched_partitions(answer, {self._where: offset}):
            return part
        raise BrokerError(f"Fetch of {self._where}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
