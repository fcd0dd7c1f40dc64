"""Clients of a cluster find moved leaders and coordinators, survive stopped nodes, and transactions stay atomic.

tests/peers/test_nodes.py has the tests with Kafka's Java client and franz-go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aiokafka
import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.client import TransactionalProducer
from stuntbroker.fixture.broker import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"orders": 3, "paid": 3}, nodes=3) as running:
        yield running
        assert running.findings() == []


def errors_of(broker: Broker, client_id: str) -> set[str]:
    return {error for each in broker.requests(1_000) if each.client_id == client_id for error in each.errors}


def librdkafka(broker: Broker, **settings: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap, "client.id": "payer", "log_level": 0,
        "retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "topic.metadata.refresh.fast.interval.ms": 20,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }  # fmt: skip


def confluent_producer(broker: Broker) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(librdkafka(broker, transactional_id="pay-1"))
    producer.init_transactions(10)
    return producer


def next_node(node: int) -> int:
    return node % 3 + 1


def test_a_commit_finds_the_new_coordinator_and_waits_until_it_has_loaded(broker: Broker) -> None:
    producer = confluent_producer(broker)
    producer.begin_transaction()
    producer.produce("orders", b"1", partition=0)
    producer.flush(10)
    broker.clock.pause()
    broker.nodes.move(next_node(broker.nodes.coordinator("pay-1")), transactional_id="pay-1", load_ms=300)
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(producer.commit_transaction, 10)
        broker.wait_until(lambda: "COORDINATOR_LOAD_IN_PROGRESS" in errors_of(broker, "payer"))
        broker.clock.advance(ms=300)
        commit.result()

    assert "NOT_COORDINATOR" in errors_of(broker, "payer")
    broker.assert_committed("orders", [b"1"])


def test_records_find_the_new_leader_in_the_same_transaction(broker: Broker) -> None:
    producer = confluent_producer(broker)
    producer.begin_transaction()
    for value, node in ((b"1", 2), (b"2", 3), (b"3", 1)):
        producer.produce("orders", value, partition=0)
        producer.flush(10)
        broker.nodes.move(node, topic="orders", partition=0)
    producer.commit_transaction(10)

    assert "NOT_LEADER_OR_FOLLOWER" in errors_of(broker, "payer")
    broker.assert_committed("orders", [b"1", b"2", b"3"])


def test_a_transaction_commits_whichever_node_stops(broker: Broker) -> None:
    producer = confluent_producer(broker)
    for node in (1, 2, 3):
        producer.begin_transaction()
        producer.produce("orders", b"%d" % node, partition=node - 1)
        producer.flush(10)
        broker.nodes.stop(node)
        producer.commit_transaction(20)
        broker.nodes.start(node)

    broker.assert_committed("orders", [b"1", b"2", b"3"])


def test_a_consumer_continues_when_its_leader_or_coordinator_stops(broker: Broker) -> None:
    consumer = confluent_kafka.Consumer(
        librdkafka(broker, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False)
    )
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    try:
        for count, node in enumerate((1, 2, 3), 1):
            broker.produce("orders", b"%d" % count, partition=0)
            while len(values) < count:
                message = consumer.poll(10)
                assert message is not None
                if not message.error():
                    values.append(message.value())
            consumer.commit(asynchronous=False)
            broker.nodes.stop(node)
            broker.wait_until(lambda: broker.nodes.leader("orders", 0) > 0)
            broker.nodes.start(node)
    finally:
        consumer.close()

    assert values == [b"1", b"2", b"3"]
    assert broker.committed("readers")["orders", 0] == 3


def test_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    properties = {"broker.rack": "a,b,c", "replica.selector.class": selector}
    with stuntbroker.broker(properties, topics={"orders": 1}, nodes=3) as broker:
        broker.produce("orders", "1")
        consumer = confluent_kafka.Consumer(
            librdkafka(broker, group_id="readers", auto_offset_reset="earliest", client_rack="c")
        )
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        fault = broker.faults.add("Fetch", node=3, client_id="payer", delay_ms=1)
        try:
            message = consumer.poll(10)
            assert message is not None and message.value() == b"1"
        finally:
            consumer.close()
        assert fault.fired > 0


async def test_aiokafka_finds_new_leaders_and_new_coordinators(broker: Broker) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id="pay-1", retry_backoff_ms=20
    )
    await producer.start()
    try:
        for node in (2, 3, 1):
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"%d" % node, partition=0)
            await asyncio.to_thread(broker.nodes.move, node, topic="orders", partition=0)
            await producer.send_and_wait("paid", b"%d" % node, partition=0)
            await asyncio.to_thread(broker.nodes.move, node, topic="paid", partition=0)
            await producer.commit_transaction()
    finally:
        await producer.stop()

    await asyncio.to_thread(broker.assert_committed, "orders", [b"2", b"3", b"1"])
    await asyncio.to_thread(broker.assert_committed, "paid", [b"2", b"3", b"1"])


async def test_our_client_finds_new_leaders_coordinators_and_nodes(broker: Broker) -> None:
    async with TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="pay-1") as producer:
        await producer.init_transactions()
        for node in (1, 2, 3):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"%d" % node, partition=node - 1)
                other = next_node(broker.nodes.coordinator("pay-1"))
                await asyncio.to_thread(broker.nodes.move, other, transactional_id="pay-1", load_ms=50)
                await asyncio.to_thread(broker.nodes.stop, node)
                await producer.send_and_wait("paid", b"%d" % node, partition=node - 1)
            await asyncio.to_thread(broker.nodes.start, node)

    await asyncio.to_thread(broker.assert_committed, "orders", [b"1", b"2", b"3"])
    await asyncio.to_thread(broker.assert_committed, "paid", [b"1", b"2", b"3"])
