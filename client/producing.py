"""Writing a few records: for commands and tests, one request at a time and without a transaction.

Transactions are those of `producer`, which takes the batches that `batches_by_partition` makes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import BrokerError, ConnectionFailed, NotFound, check
from stuntbroker.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    Headers,
    add_sequence,
    build_batch,
    seal,
    stamp_producer,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import ProduceResponse

PRODUCE_NAMES_MAX: Final = 12
"""Later versions name topics by id."""
TIMEOUT_MS: Final = 30_000
BATCH_BYTES_MAX: Final = 512 << 10
"""Keys and values in a batch, unless one record alone has more: below the default of `max.message.bytes`."""
CREATION_S_MAX: Final = 5.0
"""How long a topic may be unknown to a broker that may be creating it."""
FORGOTTEN: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""The broker is not in the state in which it acknowledged the batch before, as after a restored snapshot: nothing was written."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compression, by Kafka's numbers."""


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
    """-1 when the broker did not say (acks=0)."""
    records: int


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class IdempotentWriter:
    """An idempotent producer (KIP-98): a batch whose answer was lost is not written twice when it is sent again.

    For one thread, as its `Cluster`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pair: tuple[int, int] | None = None
        """Producer id and epoch."""
        self._sequences: dict[tuple[str, int], int] = {}
        """The next sequence number of each partition."""

    def produce(
        self,
        topic: str,
        records: Iterable[NewRecord],
        *,
        compression: str = "none",
        timestamp_ms: int | None = None,
        choose: Callable[[], int] = lambda: 0,
        written: list[Appended] | None = None,
    ) -> list[Appended]:
        """Write records with acks=all, each partition's in order. Raises BrokerError, NotFound.

        `written`: list to which each appended batch is added, for use after a failure.

        `choose`: see `batches_by_partition`.

        After TimedOut, the batch in flight may have been appended: this is unknown.
        """
        partitions = partition_count(self._cluster, topic)
        written = [] if written is None else written
        for partition, batch, count in batches_by_partition(records, partitions, compression, timestamp_ms, choose):
            written.append(Appended(partition, self._append(topic, partition, batch, count), count))
        return written

    def _append(self, topic: str, partition: int, batch: bytearray, count: int) -> int:
        """The offset of the batch's first record."""
        place = topic, partition
        sequence = self._sequences.get(place, 0)
        sent = 0

        def attempt() -> int:
            nonlocal sent
            node_id = self._cluster.leader(topic, partition)
            if not sent:
                stamp_producer(batch, *self._producer(node_id), sequence)
            sent += 1
            return self._send(node_id, topic, partition, batch)

        try:
            offset = self._cluster.retrying(attempt)
        except BaseException as fault:
            self._pair = None  # Whether it was appended is not known: the sequence numbers begin anew.
            self._sequences.clear()
            if sent == 1 and sequence and isinstance(fault, BrokerError) and fault.code in FORGOTTEN:
                return self._append(topic, partition, batch, count)
            raise
        self._sequences[place] = add_sequence(sequence, count)
        return offset

    def _producer(self, node_id: int) -> tuple[int, int]:
        if self._pair is None:
            request = InitProducerIdRequest(None, TIMEOUT_MS)
            answer = self._cluster.ask(node_id, INIT_PRODUCER_ID, request, InitProducerIdResponse)
            check("InitProducerId", answer.error_code)
            self._pair = answer.producer_id, answer.producer_epoch
        return self._pair

    def _send(self, node_id: int, topic: str, partition: int, batch: bytearray) -> int:
        topics = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
        request = ProduceRequest(None, -1, TIMEOUT_MS, topics)
        answer = self._cluster.ask(node_id, PRODUCE, request, ProduceResponse, most=PRODUCE_NAMES_MAX)
        if not answer.responses:
            raise ConnectionFailed(f"Produce to {topic}-{partition}: the answer does not name the partition")
        part = answer.responses[0].partition_responses[0]
        check(f"Produce to {topic}-{partition}", part.error_code, part.error_message)
        return part.base_offset


def partition_count(cluster: Cluster, topic: str) -> int:
    """How many partitions a topic has; it is created if the brokers do so (`auto.create.topics.enable`). Raises NotFound."""
    give_up_s = time.monotonic() + CREATION_S_MAX

    def attempt() -> int:
        try:
            return len(cluster.partitions([topic], create=True))
        except NotFound as fault:
            if time.monotonic() >= give_up_s:
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
    """(partition, batch, number of records) for records in order, as few batches as BATCH_BYTES_MAX allows.

    As Kafka's default partitioner: by murmur2 of the key. Records without a key go to one partition after the other,
    a batch each, beginning with `choose()`.
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
            partition = (murmur2(record.key) & 0x7FFF_FFFF) % partitions
        else:
            partition = sticky % partitions
        size = len(record.key or b"") + len(record.value or b"") + 64 * (1 + len(record.headers))
        if queues.get(partition) and sizes[partition] + size > BATCH_BYTES_MAX:
            yield partition, _batch(queues[partition], time_ms, compression), len(queues.pop(partition))
            if is_sticky:
                sticky += 1
                partition = sticky % partitions
        if partition not in queues:
            queues[partition], sizes[partition] = [], 0
        queues[partition].append(record)
        sizes[partition] += size
    for partition, queue in queues.items():
        yield partition, _batch(queue, time_ms, compression), len(queue)


def _batch(records: Sequence[NewRecord], time_ms: int, compression: str) -> bytearray:
    headers = [record.headers for record in records] if any(record.headers for record in records) else None
    codec = CODECS.index(compression)
    batch = build_batch(((record.key, record.value) for record in records), time_ms, headers=headers, attributes=codec)
    if codec:
        from stuntbroker.protocol.batches.compression import compress

        batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        seal(batch)
    return batch


def any_partition() -> int:
    """Return a random start for the partitioning of records without a key, as Kafka's clients do."""
    return random.randrange(1 << 31)


def murmur2(data: bytes) -> int:
    """Return the hash of a key as Kafka's default partitioner computes it (Utils.murmur2), as 32 unsigned bits."""
    mask, multiplier = 0xFFFF_FFFF, 0x5BD1_E995
    length = len(data)
    hashed = 0x9747_B28C ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = (hashed * multiplier & mask) ^ word
    if length & 3:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15
