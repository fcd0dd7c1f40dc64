"""Problems that users reported for other brokers and clients and could not test: here, each is a test of a few lines.

| report | problem |
|---|---|
| aiokafka issue 1134 | a producer never looked for its coordinator again |
| librdkafka issue 3928 | a producer that had timed out got a fencing error, although there was no other producer |
| KIP-890 | the response to a commit is lost, and its retry must not end the next transaction |
| KAFKA-20090 | the epochs of a producer are exhausted |
| flink-connector-kafka issue 238 | a hanging transaction blocks read_committed consumers |
| Jepsen's analysis of Bufstream 0.1.0 | a delayed EndTxn ends the next transaction, only part of which is committed |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.cli.main import run
from stuntbroker.client import TransactionalProducer
from stuntbroker.fixture.broker import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"payments": 1}) as running:
        yield running


def producer_of(broker: Broker, transactional_id: str = "pay-1") -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(10)
    return producer


def write(producer: confluent_kafka.Producer, value: str) -> None:
    producer.begin_transaction()
    producer.produce("payments", value, partition=0)
    producer.flush(10)


async def test_aiokafka_1134_a_producer_finds_its_coordinator_after_a_move() -> None:
    async with stuntbroker.broker(topics={"payments": 1}, nodes=3) as broker:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="pay-1", client_id="payer", retry_backoff_ms=20
        )
        await producer.start()
        try:
            for value in (b"1", b"2", b"3"):
                await producer.begin_transaction()
                await producer.send_and_wait("payments", value)
                node = await asyncio.to_thread(broker.nodes.coordinator, "pay-1")
                await asyncio.to_thread(broker.nodes.move, node % 3 + 1, transactional_id="pay-1")
                await producer.commit_transaction()
        finally:
            await producer.stop()
        requests = await asyncio.to_thread(broker.requests, 1_000)
        assert [each.errors for each in requests if each.api == "EndTxn"] == [["NOT_COORDINATOR"], []] * 3
        await asyncio.to_thread(broker.assert_committed, "payments", [b"1", b"2", b"3"])


@pytest.mark.parametrize("is_alone", [True, False])
def test_librdkafka_3928_a_transaction_time_out_is_distinguished_from_a_newer_instance(
    is_alone: bool, broker: Broker
) -> None:
    producer = producer_of(broker)
    write(producer, "42 EUR")
    if is_alone:
        broker.clock.advance(minutes=2)
    else:
        producer_of(broker)

    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(10)
    assert {each["cause"] for each in broker.fences()} == {"timeout" if is_alone else "newer_instance"}
    broker.assert_committed("payments", [])


@pytest.mark.parametrize("personality, version", [("3.9", 4), ("4.3", 5)])
async def test_kip_890_a_commit_retried_after_a_lost_response_does_not_end_the_next_transaction(
    personality: str, version: int
) -> None:
    async with stuntbroker.broker({"stuntbroker.personality": personality}, topics={"payments": 1}) as broker:
        fault = await asyncio.to_thread(broker.faults.add, "EndTxn", lose_response=True, times=1)
        async with TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="pay-1") as producer:
            await producer.init_transactions()
            for value in (b"1", b"2"):
                async with producer.transaction():
                    await producer.send_and_wait("payments", value)
        assert await asyncio.to_thread(lambda: fault.fired) == 1
        requests = await asyncio.to_thread(broker.requests, 1_000)
        assert {each.version for each in requests if each.api == "EndTxn"} == {version}
        await asyncio.to_thread(broker.assert_committed, "payments", [b"1", b"2"])


def test_kafka_20090_a_producer_continues_with_another_id_when_its_epochs_have_run_out(broker: Broker) -> None:
    broker.seed(ids={"transactional_id": "pay-1", "producer_epoch": 32_765})
    for value in ("1", "2", "3"):
        producer = producer_of(broker)
        write(producer, value)
        producer.commit_transaction(10)

    broker.assert_committed("payments", ["1", "2", "3"])
    ended = broker.outcomes(["payments"])
    assert len({each.producer_id for each in ended}) == 2 and {each.end for each in ended} == {"committed"}


def test_flink_238_a_hanging_transaction_is_found_and_ended(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.seed(hanging={"topic": "payments", "partition": 0})
    producer = producer_of(broker)
    write(producer, "42 EUR")
    producer.commit_transaction(10)
    broker.assert_committed("payments", [])  # The hanging transaction hides it.

    assert run(["txn", "find-hanging", "--bootstrap", broker.bootstrap]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "txn abort" in line]
    assert run(line[line.index("txn abort") :].split()) == 0

    broker.assert_committed("payments", ["42 EUR"])


@pytest.mark.parametrize("level, errors", [(1, []), (2, ["PRODUCER_FENCED"])])
async def test_bufstream_a_delayed_commit_ends_the_next_transaction_or_is_refused(
    level: int, errors: list[str]
) -> None:
    async with stuntbroker.broker({"transaction.version": level}, topics={"payments": 1}) as broker:
        producer = TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="pay-1")
        await producer.start()
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_and_wait("payments", b"first")
        await producer.begin_transaction()
        await producer.send_and_wait("payments", b"half")

        assert await asyncio.to_thread(broker.deliver_late, "EndTxn", "pay-1") == errors
        expected = [b"first"] if errors else [b"first", b"half"]
        await asyncio.to_thread(broker.assert_committed, "payments", expected)
        await producer.stop()


def test_a_full_disk_loses_no_acknowledged_transaction(broker: Broker) -> None:
    broker.apply_plan("disk-full")
    producer = producer_of(broker)
    committed = []
    with pytest.raises(confluent_kafka.KafkaException):
        for number in range(60):
            write(producer, str(number))
            producer.commit_transaction(2)
            committed.append(str(number))

    assert not broker.is_running
    broker.restart()
    values = [value.decode() for value in broker.values("payments") if value is not None]
    assert committed and values[: len(committed)] == committed
    assert len(values) <= len(committed) + 1  # The response to the last commit may be lost.
