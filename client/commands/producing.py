"""Write a few records, one request at a time and without a transaction: for commands and tests.

Transactional writes use `producer`, which takes the batches of `batches_by_partition`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import BrokerError, ConnectionFailed, NotFound, check
from stuntbroker.client.monotonic import monotonic_s
from stuntbroker.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from stuntbroker.protocol.batches.records import (
    CODEC_NAMES,
    EPOCH_AT,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    Headers,
    build_batch,
    seal,
    stamp_producer,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_of_key
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import ProduceResponse
from stuntbroker.protocol.versions import PRODUCE_NAMES_MAX

TIMEOUT_MS: Final = 30_000
BATCH_BYTES_MAX: Final = 512 << 10
"""Maximum bytes of records in a batch, unless a single record is larger; below the default of `max.message.bytes`."""
CREATION_S_MAX: Final = 5.0
"""How long, in seconds, to wait for a topic that a broker may be creating."""
UNKNOWN_OFFSET: Final = -1


class NewRecord(NamedTuple):
    """A record to be written. `partition` None leaves the choice to Kafka's default partitioner."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


class Appended(NamedTuple):
    """A batch that was appended: partition, first offset, number of records."""

    partition: int
    first_offset: int
    """UNKNOWN_OFFSET if the broker did not return it."""
    records: int


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def any_partition() -> int:
    """Return a random start for the partitioning of records without a key, as Kafka's clients do."""
    return random.randrange(1 << 31)


def produce(
    cluster: Cluster,
    topic: str,
    records: Iterable[NewRecord],
    *,
    compression: str = "none",
    timestamp_ms: int | None = None,
    choose: Callable[[], int] = lambda: 0,
    written: list[Appended] | None = None,
) -> list[Appended]:
    """Write records with acks=all, in order within each partition and without duplicates. Raises BrokerError, NotFound.

    `written`: list to which each appended batch is added, for use after a failure.

    `choose`: see `batches_by_partition`.

    After TimedOut, it is unknown whether the batch in flight was appended.
    """
    partitions = partition_count(cluster, topic)
    producer = _IdempotentProducer(cluster, topic)
    written = [] if written is None else written
    for partition, batch, count in batches_by_partition(records, partitions, compression, timestamp_ms, choose):
        written.append(Appended(partition, producer.append(partition, batch, count), count))
    return written


class _IdempotentProducer:
    """Producer of one `produce` call: a batch that is resent after a lost response is not written twice (KIP-98).

    The producer id is not kept longer: a broker that is reset to an earlier state allocates the same ids again.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._pair: tuple[int, int] | None = None
        """Producer id and epoch."""
        self._sequences: Counter[int] = Counter()
        """The next sequence number of each partition."""

    def append(self, partition: int, batch: bytearray, count: int) -> int:
        """Write a batch of `count` records; return the offset of the first."""
        is_stamped = False

        def attempt() -> int:
            nonlocal is_stamped
            node_id = self._cluster.leader(self._topic, partition)
            if not is_stamped:
                stamp_producer(batch, *self._producer(node_id), self._sequences[partition])
                is_stamped = True
            return self._send(node_id, partition, batch)

        offset = self._cluster.retrying(attempt)
        self._sequences[partition] += count
        return offset

    def _producer(self, node_id: int) -> tuple[int, int]:
        if self._pair is None:
            request = InitProducerIdRequest(None, TIMEOUT_MS)
            answer = self._cluster.ask(node_id, INIT_PRODUCER_ID, request, InitProducerIdResponse)
            check("InitProducerId", answer.error_code)
            self._pair = answer.producer_id, answer.producer_epoch
        return self._pair

    def _send(self, node_id: int, partition: int, batch: bytearray) -> int:
        place = f"Produce to {self._topic}-{partition}"
        topics = [TopicProduceData(self._topic, partition_data=[PartitionProduceData(partition, batch)])]
        request = ProduceRequest(None, -1, TIMEOUT_MS, topics)
        answer = self._cluster.ask(node_id, PRODUCE, request, ProduceResponse, most=PRODUCE_NAMES_MAX)
        if not answer.responses:
            raise ConnectionFailed(f"{place}: the answer does not name the partition")
        part = answer.responses[0].partition_responses[0]
        if part.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # Written, at an unknown offset.
            return UNKNOWN_OFFSET
        check(place, part.error_code, part.error_message)
        return part.base_offset


def partition_count(cluster: Cluster, topic: str) -> int:
    """Return the number of partitions of a topic, which brokers may create (`auto.create.topics.enable`). Raises NotFound."""
    give_up_s = monotonic_s() + CREATION_S_MAX

    def attempt() -> int:
        try:
            return len(cluster.partitions([topic], create=True))
        except NotFound as fault:
            if monotonic_s() >= give_up_s:
                raise
            # Kafka also returns this error while it creates the topic.
            raise BrokerError(f"topic {topic!r}", ErrorCode.LEADER_NOT_AVAILABLE) from fault

    return cluster.retrying(attempt)


def batches_by_partition(
    records: Iterable[NewRecord],
    partitions: int,
    compression: str = "none",
    timestamp_ms: int | None = None,
    choose: Callable[[], int] = lambda: 0,
) -> Iterable[tuple[int, bytearray, int]]:
    """Yield (partition, batch, number of records) for records in order, in as few batches as BATCH_BYTES_MAX allows.

    Partitions are chosen as by Kafka's default partitioner: murmur2 of the key. Records without a key fill one batch of a
    partition, then one of the next, starting with `choose()`.
    """
    queues: dict[int, list[NewRecord]] = {}
    sizes: dict[int, int] = {}
    sticky = choose()
    time_ms = now_ms() if timestamp_ms is None else timestamp_ms
    for record in records:
        is_sticky = record.partition is None and record.key is None
        if record.partition is not None:
            partition = record.partition
            if not 0 <= partition < partitions:
                raise NotFound(f"there is no partition {partition}: the topic has {partitions}")
        elif record.key is not None:
            partition = partition_of_key(record.key, partitions)
        else:
            partition = sticky % partitions
        size = len(record.key or b"") + len(record.value or b"") + 64 * (1 + len(record.headers))
        if is_sticky and queues.get(partition) and sizes[partition] + size > BATCH_BYTES_MAX:
            yield partition, _batch(queues[partition], time_ms, compression), len(queues.pop(partition))
            sticky += 1
            partition = sticky % partitions
        if queues.get(partition) and sizes[partition] + size > BATCH_BYTES_MAX:
            yield partition, _batch(queues[partition], time_ms, compression), len(queues.pop(partition))
        if partition not in queues:
            queues[partition], sizes[partition] = [], 0
        queues[partition].append(record)
        sizes[partition] += size
    for partition, queue in queues.items():
        yield partition, _batch(queue, time_ms, compression), len(queue)


def _batch(records: Sequence[NewRecord], time_ms: int, compression: str) -> bytearray:
    headers = [record.headers for record in records] if any(record.headers for record in records) else None
    codec = CODEC_NAMES.index(compression)
    batch = build_batch(((record.key, record.value) for record in records), time_ms, headers=headers, attributes=codec)
    if codec:
        from stuntbroker.protocol.batches.compression import compress

        batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        batch[LENGTH_AT:EPOCH_AT] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        seal(batch)
    return batch
