"""A valid batch, modified batches, and Produce and Fetch requests for them."""

from __future__ import annotations

from typing import Any

from stuntbroker.protocol.batches.records import seal
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.valid_requests import TOPIC, batch


def produce(
    data: bytes | None, name: str = TOPIC, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id, acks, 1_000, [TopicProduceData(name, partition_data=[PartitionProduceData(0, data)])]
    )


def changed(data: bytes, at: int, new: bytes, *, sealed: bool = True) -> bytes:
    """Return the batch with `new` at position `at` and, if `sealed`, a correct CRC."""
    created = bytearray(data)
    created[at : at + len(new)] = new
    if sealed:
        seal(created)
    return bytes(created)


def fetch(offset: int = 0, max_wait_ms: int = 60_000, **fields: Any) -> FetchRequest:
    wanted = FetchPartition(0, -1, offset, -1, -1, 1_000_000)
    given: dict[str, Any] = {
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "topics": [FetchTopic(TOPIC, partitions=[wanted])],
    } | fields
    return FetchRequest(max_wait_ms=max_wait_ms, **given)


GOOD = batch(3)
