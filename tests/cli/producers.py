"""Build transactions in any state, with single requests to any broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Answer
from stuntbroker.client.errors import ClientError, UnsupportedVersion, check
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.create_topics_response import CreateTopicsResponse
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.list_offsets_response import ListOffsetsResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import ProduceResponse
from stuntbroker.protocol.primitives import Message

TIMEOUT_S = 20.0
ADD_PARTITIONS_V3, PRODUCE_V11, END_TXN_V4 = 3, 11, 4
"""Versions of the first transaction protocol (KIP-98): only AddPartitionsToTxn adds a partition to a transaction."""
READ_COMMITTED = 1
LATEST = -1
TWO_PHASE_V6 = 6


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


class Hand:
    """Sends the single requests of a producer to a cluster of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.cluster = Cluster(parse_bootstrap(bootstrap), TIMEOUT_S)
        (self.node_id,) = self.cluster.retrying(self.cluster.broker_ids)

    def close(self) -> None:
        self.cluster.close()

    def make_topic(self, name: str, partitions: int = 2) -> None:
        def attempt() -> None:
            request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000)
            (created,) = self._ask(19, request, CreateTopicsResponse, 5).topics
            if created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(name, created.error_code)

        def known() -> bool:
            try:
                return all(self.cluster.leader(name, index) >= 0 for index in range(partitions))
            except ClientError:  # Kafka responds to CreateTopics before its broker knows the topic.
                return False

        self.cluster.retrying(attempt)
        self.until(known)

    def init(self, transactional_id: str | None, timeout_ms: int = 60_000) -> Producer:
        def attempt() -> Producer:
            if transactional_id is not None:
                self.cluster.coordinators([transactional_id])
            created = self._ask(22, InitProducerIdRequest(transactional_id, timeout_ms), InitProducerIdResponse, 4)
            check("InitProducerId", created.error_code)
            return Producer(transactional_id or "nobody", created.producer_id, created.producer_epoch)

        return self.cluster.retrying(attempt)

    def has_two_phase(self) -> bool:
        """Return whether the broker serves InitProducerId v6; the client learned its versions when it connected."""
        try:
            return self.cluster.version(self.node_id, 22, least=TWO_PHASE_V6) >= TWO_PHASE_V6
        except UnsupportedVersion:
            return False

    def init_two_phase(self, transactional_id: str) -> Producer:
        """Return a producer whose transactions have no time-out (KIP-939)."""

        def attempt() -> Producer:
            self.cluster.coordinators([transactional_id])
            request = InitProducerIdRequest(transactional_id, 60_000, enable_2pc=True)
            created = self._ask(22, request, InitProducerIdResponse, TWO_PHASE_V6)
            check("InitProducerId", created.error_code)
            return Producer(transactional_id, created.producer_id, created.producer_epoch)

        return self.cluster.retrying(attempt)

    def settled(self, producer: Producer) -> None:
        """Wait until the markers of the last transaction are written, which Kafka does after it has responded to EndTxn."""
        admin = Admin(self.cluster)

        def complete() -> bool:
            described = admin.describe_transactions([producer.transactional_id])[producer.transactional_id]
            return described is not None and described.state.startswith("Complete")

        self.until(complete)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.005)

    def add(self, producer: Producer, topic: str, *partitions: int) -> None:
        def attempt() -> None:
            request = AddPartitionsToTxnRequest((), *producer, [AddPartitionsToTxnTopic(topic, partitions)])
            answer = self._ask(24, request, AddPartitionsToTxnResponse, ADD_PARTITIONS_V3)
            for actual in answer.results_by_topic_v3_and_below:
                for each in actual.results_by_partition:
                    check("AddPartitionsToTxn", each.partition_error_code)

        self.cluster.retrying(attempt)

    def produce(self, producer: Producer, topic: str, partition: int, age_ms: int = 0, sequence: int = 0) -> int:
        """Produce two records of this age; return the first offset. The partition may be outside the transaction."""
        batch = build_batch(
            [(b"k", b"v"), (b"k", b"w")],
            time.time_ns() // 1_000_000 - age_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, bytes(batch))])]
        request = ProduceRequest(producer.transactional_id, -1, 10_000, data)

        def attempt() -> int:
            answer = self._ask(0, request, ProduceResponse, PRODUCE_V11)
            each = answer.responses[0].partition_responses[0]
            check("Produce", each.error_code, each.error_message)
            return each.base_offset

        return self.cluster.retrying(attempt)

    def end(self, producer: Producer, *, commit: bool) -> None:
        def attempt() -> None:
            check("EndTxn", self._ask(26, EndTxnRequest(*producer, commit), EndTxnResponse, END_TXN_V4).error_code)

        self.cluster.retrying(attempt)

    def last_stable_offset(self, topic: str, partition: int) -> int:
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, LATEST)])]
        answer = self.cluster.retrying(
            lambda: self._ask(2, ListOffsetsRequest(-1, READ_COMMITTED, wanted), ListOffsetsResponse, 5)
        )
        each = answer.topics[0].partitions[0]
        check("ListOffsets", each.error_code)
        return each.offset

    def _ask(self, key: int, request: Message, answer: type[Answer], version: int) -> Answer:
        return self.cluster.ask(self.node_id, key, request, answer, most=version)
