"""Produce requests for batches of several partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stuntbroker.client.producer.batches import Batch
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.request_values import ACKS_ALL
from stuntbroker.protocol.topic_names import TopicPartition

BATCH_OVERHEAD: Final = 128
"""Upper bound of the bytes of a batch's header and of its fields in the request."""


def split_by_size(batches: list[Batch], size_max: int) -> Iterator[list[Batch]]:
    """Distribute sealed batches over requests of at most `size_max` bytes; a larger batch gets a request of its own."""
    group: list[Batch] = []
    size = 0
    for batch in batches:
        assert batch.data is not None
        if group and size + len(batch.data) + BATCH_OVERHEAD > size_max:
            yield group
            group, size = [], 0
        group.append(batch)
        size += len(batch.data) + BATCH_OVERHEAD
    yield group


def produce_request(
    transactional_id: str, timeout_ms: int, batches: list[Batch]
) -> tuple[ProduceRequest, dict[TopicPartition, Batch]]:
    """Return a request with sealed batches of different partitions, and the batches by partition."""
    topics: dict[str, list[PartitionProduceData]] = {}
    places = {}
    for batch in batches:
        queue = batch.queue
        topics.setdefault(queue.topic, []).append(PartitionProduceData(queue.partition, batch.data))
        places[queue.topic, queue.partition] = batch
    data = [TopicProduceData(name, partition_data=parts) for name, parts in topics.items()]
    return ProduceRequest(transactional_id, ACKS_ALL, timeout_ms, data), places
