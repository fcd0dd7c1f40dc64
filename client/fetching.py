"""Topics, start and end offsets, and raw record batches, for readers of many partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.cluster import Cluster
from stuntbroker.client.connection import REQUEST_S_MAX, Deadline, Pending
from stuntbroker.client.errors import BrokerError, ConnectionFailed, NotFound, check
from stuntbroker.client.reader import FETCH_NAMES_MAX
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
        for node_id, mine in _by_leader(cluster, wanted).items():
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


def _by_leader(cluster: Cluster, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Group partitions by leader id. Raises NotFound, or a retriable BrokerError while a partition has no leader."""
    leaders = {
        TopicPartition(partition.topic, partition.partition): partition.leader_id
        for partition in cluster.partitions({partition.topic for partition in wanted})
    }
    by_leader = defaultdict(list)
    for partition in sorted(wanted):
        if partition not in leaders:
            raise NotFound(f"there is no partition {partition}")
        if leaders[partition] < 0:
            raise BrokerError(f"partition {partition}", ErrorCode.LEADER_NOT_AVAILABLE)
        by_leader[leaders[partition]].append(partition)
    return by_leader


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
        sizes = self._sizes
        part_bytes_max = min(sizes.partition_bytes_max, bytes_max)
        wanted = FetchPartition(partition, -1, offset, partition_max_bytes=part_bytes_max)
        request = FetchRequest(
            max_wait_ms=sizes.wait_ms_max,
            min_bytes=sizes.bytes_min,
            max_bytes=sizes.bytes_max,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic, partitions=[wanted])],
        )
        version = connection.version(FETCH, most=FETCH_NAMES_MAX)
        return connection.send(FETCH, version, request, FetchResponse, Deadline(REQUEST_S_MAX))

    def _answer(self, offset: int, pending: Pending[FetchResponse]) -> PartitionData:
        answer = pending.result(Deadline(REQUEST_S_MAX))
        check(f"Fetch of {self._where}", answer.error_code)
        if not answer.responses or not answer.responses[0].partitions:
            raise BrokerError(f"Fetch of {self._where}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        part = answer.responses[0].partitions[0]
        check(f"Fetch of {self._where} at offset {offset}", part.error_code)
        return part
