"""A well-behaved client that keeps committing transactions and reading them back while other clients misbehave."""

from __future__ import annotations

from typing import Any

from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.rig import Client, Rig
from tests.kit.valid_requests import batch

TOPIC = "calm"
TXN = "calm-txn"
EPOCH_LAST = 32_766


class Bystander:
    """A client with one connection that stays open for all its rounds."""

    def __init__(self, rig: Rig) -> None:
        rig.topic(TOPIC)
        self.rig = rig
        self.client: Client = rig.client()
        created = self.client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        assert created.error_code == 0
        self.producer_id, self.epoch = created.producer_id, created.producer_epoch
        self.offset = 0

    def produce(self, count: int, timestamp: int) -> Any:
        records = batch(count, self.producer_id, self.epoch, 0, timestamp=timestamp)
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])]
        return self.client.ask(ProduceRequest(TXN, -1, 1_000, data), 12).responses[0].partition_responses[0]

    def work(self) -> None:
        """Commit a transaction of two records, and read it back with read_committed."""
        written = self.produce(2, self.rig.clock.ms)
        assert (written.error_code, written.base_offset) == (0, self.offset)
        ended = self.client.ask(EndTxnRequest(TXN, self.producer_id, self.epoch, True), 5)
        assert ended.error_code == 0
        self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch
        read = self.fetch(self.offset)
        assert read.error_code == 0
        assert (read.high_watermark, read.last_stable_offset) == (self.offset + 3, self.offset + 3)
        assert len(read.records) > 61
        self.offset += 3

    def fetch(self, offset: int, topic: str = TOPIC) -> Any:
        wanted = FetchPartition(0, -1, offset, -1, -1, 100_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=100_000,
            isolation_level=1,
            topics=[FetchTopic(topic, partitions=[wanted])],
        )
        return self.client.ask(request, 12).responses[0].partitions[0]
