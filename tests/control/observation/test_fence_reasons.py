"""Responses with a fencing error include the cause of the fence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from stuntbroker.broker.produce.long_produce import PARTITIONS_AT_ONCE
from stuntbroker.broker.requests.plain_messages import response_class
from stuntbroker.client import ProduceFailedError, ProducerFencedError, TransactionAbortableError, TransactionalProducer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.transactions import End, end_all, init_producer
from stuntbroker.client.errors import ProducerFenced
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.fixture.broker import Broker
from stuntbroker.groups.commits import COMMITTED_AT_ONCE
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch, stamp_producer
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stuntbroker.protocol.primitives import Message

ID = "pay"


def produce_request(pair: PreparedTxnState, partitions: int = 1) -> ProduceRequest:
    batch = build_batch([(None, b"late")], 1)
    stamp_producer(batch, *pair, 0, TRANSACTIONAL)
    data = [PartitionProduceData(index, batch) for index in range(partitions)]
    return ProduceRequest(ID, -1, 1000, [TopicProduceData("t", partition_data=data)])


def offsets_request(pair: PreparedTxnState, offsets: int = 1) -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 1, -1, "")] * offsets)
    return TxnOffsetCommitRequest(ID, "group", *pair, -1, "", None, [topic])


REQUESTS: dict[str, tuple[int, int, Callable[[PreparedTxnState], Message]]] = {
    "Produce, version 1": (0, 11, produce_request),
    "Produce, version 2": (0, 12, produce_request),
    "Produce, in parts": (0, 12, lambda pair: produce_request(pair, PARTITIONS_AT_ONCE + 1)),
    "InitProducerId": (22, 5, lambda pair: InitProducerIdRequest(ID, 1000, *pair)),
    "AddPartitionsToTxn": (
        24,
        3,
        lambda pair: AddPartitionsToTxnRequest((), ID, *pair, [AddPartitionsToTxnTopic("t", [0])]),
    ),
    "AddOffsetsToTxn": (25, 4, lambda pair: AddOffsetsToTxnRequest(ID, *pair, "group")),
    "EndTxn, version 1": (26, 4, lambda pair: EndTxnRequest(ID, *pair, True)),
    "EndTxn, version 2": (26, 5, lambda pair: EndTxnRequest(ID, *pair, True)),
    "TxnOffsetCommit, version 1": (28, 4, offsets_request),
    "TxnOffsetCommit, version 2": (28, 5, offsets_request),
    "TxnOffsetCommit, in parts": (28, 5, lambda pair: offsets_request(pair, COMMITTED_AT_ONCE + 1)),
}


def fence(broker: Broker) -> PreparedTxnState:
    """Return producer id and epoch of a producer with an open transaction that another one has fenced."""
    broker.create_topic("t", PARTITIONS_AT_ONCE + 1)
    options = {"bootstrap.servers": broker.bootstrap, "transactional.id": ID, "client.id": "old"}
    old = Producer(options)
    old.init_transactions(10)
    old.begin_transaction()
    old.produce("t", b"open")
    old.flush(10)
    state = broker.transactions()[0]
    new = Producer(options | {"client.id": "new"})
    new.init_transactions(10)
    with pytest.raises(KafkaException):  # It ignores unknown tagged fields.
        old.commit_transaction(10)
    return PreparedTxnState(state.producer_id, state.producer_epoch)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_response_to_a_fenced_producer_names_the_fencing_client(name: str, stuntbroker: Broker) -> None:
    pair = fence(stuntbroker)
    key, version, request = REQUESTS[name]
    with Cluster(parse_bootstrap(stuntbroker.bootstrap)) as cluster:
        answer: Any = cluster.ask(1, key, request(pair), response_class(key), version, version)
    last = stuntbroker.fences()[-1]
    text = answer.responses[0].partition_responses[0].error_message if key == 0 else answer.fence_reason
    assert last["request"] == APIS[key].name
    assert text.startswith("newer_instance by 'new' at 127.0.0.1:")
    assert last["advice"] in text and text.endswith(f"({last['id']})")


def test_the_response_to_a_marker_of_a_former_coordinator_has_a_reason(stuntbroker: Broker) -> None:
    fence(stuntbroker)
    state = stuntbroker.transactions()[0]
    with Cluster(parse_bootstrap(stuntbroker.bootstrap)) as cluster:
        for coordinator_epoch in (7, 6):
            marker = WritableTxnMarker(
                state.producer_id, state.producer_epoch, False, [WritableTxnMarkerTopic("t", [0])], coordinator_epoch
            )
            answer: Any = cluster.ask(1, 27, WriteTxnMarkersRequest([marker]), response_class(27), 1, 1)
    assert re.match(
        r"coordinator_move( \d+ ms before)?\. The marker was sent by a former coordinator", answer.fence_reason
    )
    assert answer.fence_reason.endswith(f"({stuntbroker.fences()[-1]['id']})")


def test_the_errors_of_the_blocking_client_and_of_the_pipeline_have_the_reason(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    with Cluster(parse_bootstrap(stuntbroker.bootstrap)) as cluster:
        with TransactionalWriter(cluster, ID) as old, TransactionalWriter(cluster, ID) as new:
            old.init()
            first = old.pair
            old.produce("t", 0, build_batch([(None, b"late")], 1))
            old.flush()
            new.init()
            with pytest.raises(ProducerFenced) as raised:
                old.commit()
            errors: list[str | None] = [raised.value.message]
            new.abort()
        init_producer(cluster, ID, 60_000)
        with pytest.raises(ProducerFenced) as raised:
            init_producer(cluster, ID, 60_000, owner=first)
        errors.append(raised.value.message)
        (ended,) = end_all(cluster, [End(ID, *first, True)])
        errors.append(ended.fence_reason)

    assert [(each or "").split()[:2] for each in errors] == [["newer_instance", "by"]] * 3


async def test_a_fence_by_our_producer_has_the_cause_newer_instance(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    options = {"bootstrap_servers": stuntbroker.bootstrap, "transactional_id": ID}
    async with TransactionalProducer(**options) as old, TransactionalProducer(**options) as new:
        await old.init_transactions()
        await new.init_transactions()
        await old.begin_transaction()
        with pytest.raises(ProduceFailedError, match="newer_instance by 'stuntbroker-producer-"):
            await old.send_and_wait("t", b"late")
        with pytest.raises(ProducerFencedError):
            await old.abort_transaction()


def test_a_response_without_a_fence_has_no_fence_reason(stuntbroker: Broker) -> None:
    fence(stuntbroker)
    with Cluster(parse_bootstrap(stuntbroker.bootstrap)) as cluster:
        answer: Any = cluster.ask(1, 22, InitProducerIdRequest("another", 1000), response_class(22), 5, 5)
    assert (answer.error_code, answer.fence_reason) == (0, None)


@pytest.mark.parametrize("version", [1, 2])
async def test_our_producers_error_carries_the_reason(version: int, stuntbroker_factory: Any) -> None:
    broker = stuntbroker_factory(**{"transaction.version": version})
    options = {"bootstrap_servers": broker.bootstrap, "transactional_id": ID}
    async with (
        TransactionalProducer(client_id="old", **options) as old,
        TransactionalProducer(client_id="new", **options) as new,
    ):
        await old.init_transactions()
        await old.begin_transaction()
        await old.send_and_wait("t", b"1")
        await new.init_transactions()
        with pytest.raises(ProduceFailedError) as failed:
            await old.send_and_wait("t", b"2")
        with pytest.raises(TransactionAbortableError) as abortable:
            await old.flush()
        with pytest.raises(ProducerFencedError) as fatal:
            await old.abort_transaction()
    for raised in (failed, abortable, fatal):
        error = raised.value
        assert error.reason is not None and error.reason.startswith("newer_instance by 'new'")
        assert error.reason in str(error)
