"""Tests with real clients that control the broker through its `Broker` object."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aiokafka
import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import ControlError, transaction


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker(topics={"payments": 1}) as running:
        yield running


def producer_of(broker: Broker, transactional_id: str = "pay-1", **settings: object) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "client.id": "payer",
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    producer.init_transactions(10)
    return producer


def test_a_commit_whose_response_is_lost_is_applied_once(broker: Broker) -> None:
    lost = broker.faults.add("EndTxn", transactional_id="pay-*", lose_response=True, times=1)
    producer = producer_of(broker)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.commit_transaction(10)

    assert lost.fired == 1
    broker.assert_committed("payments", ["42 EUR"])
    ends = [(each.state, each.errors) for each in broker.requests() if each.api == "EndTxn"]
    assert ends == [("lose_response", []), ("answered", [])]


def test_a_coordinator_that_moves_is_looked_for_again(broker: Broker) -> None:
    producer = producer_of(broker)
    fault = broker.faults.add("EndTxn", error="NOT_COORDINATOR", times=1)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.commit_transaction(10)

    assert fault.fired == 1
    apis = [each.api for each in broker.requests() if each.api in ("EndTxn", "FindCoordinator")]
    assert apis.count("EndTxn") == 2
    assert "FindCoordinator" in apis[apis.index("EndTxn") : -1] and apis[-1] == "EndTxn"
    broker.assert_committed("payments", ["42 EUR"])


def test_an_id_may_have_slashes_and_its_requests_of_all_versions_are_reported(broker: Broker) -> None:
    """librdkafka sends a version of AddPartitionsToTxn whose fields have other names than in the newest version."""
    producer = producer_of(broker, "eu/west/pay 1?")
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.commit_transaction(10)

    shown = transaction(broker.control, "eu/west/pay 1?")
    assert shown["phase"] == "CompleteCommit"
    # On a slow machine librdkafka sends FindCoordinator twice.
    apis = list(dict.fromkeys(request["api"] for request in shown["requests"]))
    assert apis == ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"]


def test_a_fault_without_a_match_spares_requests_of_the_fixture(broker: Broker) -> None:
    broker.faults.add(close=True)
    broker.produce("payments", "42 EUR")
    broker.assert_committed("payments", ["42 EUR"])


def test_a_commit_parked_after_one_marker_is_partly_visible(broker: Broker) -> None:
    broker.create_topic("two", 2)
    stop = broker.stops.park("txn.marker.after", transactional_id="pay-*")
    producer = producer_of(broker)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("two", "x", partition=partition)
    with ThreadPoolExecutor() as others:
        commit = others.submit(producer.commit_transaction, 20)
        stop.wait()
        assert (stop.parked, stop.fired) == (["pay-1"], 1)
        assert [record.partition for record in broker.records("two")] == [0]
        assert stop.release() == 1
        commit.result()
    assert [record.partition for record in broker.records("two")] == [0, 1]
    stop.remove()
    with pytest.raises(ControlError, match="stop-1 was removed"):
        assert stop.fired


@pytest.mark.parametrize(
    "point", ["txn.PrepareCommit.before", "txn.PrepareCommit.after", "txn.marker.after", "txn.reply"]
)
def test_a_commit_during_which_the_broker_is_killed_is_applied_once(point: str, broker: Broker) -> None:
    producer = producer_of(broker)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.flush(10)
    broker.stops.kill(point)
    with ThreadPoolExecutor() as others:
        commit = others.submit(producer.commit_transaction, 30)
        broker.wait_until(lambda: not broker.is_running)
        broker.restart()
        commit.result()
    broker.assert_committed("payments", ["42 EUR"])
    broker.assert_atomic("pay-1")


def test_a_late_commit_tears_the_transaction_of_a_client_that_speaks_version_1(broker: Broker) -> None:
    """This is the anomaly of Jepsen's report on Bufstream, with a client from before KIP-890."""
    broker.create_topic("two", 2)
    producer = producer_of(broker)
    for value in ("first", "half"):
        producer.begin_transaction()
        producer.produce("two", value, partition=0)
        producer.flush(10)
        if value == "first":
            producer.commit_transaction(10)
    assert broker.deliver_late("EndTxn", "pay-1") == []
    producer.produce("two", "other half", partition=1)
    producer.flush(10)
    producer.abort_transaction(10)
    assert broker.values("two") == [b"first", b"half"]


def test_waiting_for_an_unreached_stop_reports_that_nothing_matched(broker: Broker) -> None:
    stop = broker.stops.fail("txn.PrepareAbort.before", request="EndTxn")
    with pytest.raises(
        ControlError, match=r"not within 10 ms: stop-1 at txn\.PrepareAbort\.before: nothing has matched"
    ):
        stop.wait(timeout_s=0.01)
    assert "txn.PrepareAbort.before" in broker.stops.points()
    broker.stops.clear()


def test_fences_by_a_time_out_and_by_a_newer_instance_are_distinguished(broker: Broker) -> None:
    """The client gets the same error code for both causes, but the broker reports the right one."""
    sleeper = producer_of(broker, transaction_timeout_ms=60_000)
    sleeper.begin_transaction()
    sleeper.produce("payments", "late")
    sleeper.flush(10)
    broker.clock.advance(minutes=1, seconds=1)
    with pytest.raises(confluent_kafka.KafkaException):
        sleeper.commit_transaction(10)

    (fence,) = broker.fences()
    assert (fence["cause"], fence["client_id"], fence["request"]) == ("timeout", "payer", "EndTxn")
    assert "transaction.timeout.ms" in fence["advice"]

    zombie = producer_of(broker, "pay-2")
    zombie.begin_transaction()
    zombie.produce("payments", "twice")
    zombie.flush(10)
    producer_of(broker, "pay-2", client_id="successor")
    with pytest.raises(confluent_kafka.KafkaException):
        zombie.commit_transaction(10)

    assert (broker.fences()[-1]["cause"], broker.fences()[-1]["by_client_id"]) == ("newer_instance", "successor")
    broker.assert_committed("payments", [])


def test_a_held_commit_holds_back_the_last_stable_offset_but_no_other_commit(broker: Broker) -> None:
    held = broker.faults.add("EndTxn", transactional_id="pay-1", hold=True)
    slow, quick = producer_of(broker, "pay-1"), producer_of(broker, "pay-2")
    for producer, value in ((slow, "first"), (quick, "second")):
        producer.begin_transaction()
        producer.produce("payments", value)
        producer.flush(10)
    with pytest.raises(confluent_kafka.KafkaException):
        slow.commit_transaction(0.5)
    quick.commit_transaction(10)
    assert broker.values("payments") == []

    broker.wait_until(lambda: held.held == 1)
    assert held.release() == 1
    broker.assert_committed("payments", ["first", "second"])
    held.remove()
    slow.commit_transaction(10)


async def test_a_silent_member_is_removed_after_its_session_time_out(broker: Broker) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        "payments", bootstrap_servers=broker.bootstrap, group_id="readers", session_timeout_ms=300_000
    )
    await consumer.start()
    try:
        assert [len(group.members) for group in broker.groups()] == [1]
        broker.faults.add("Heartbeat", group="readers", no_response=True)
        broker.clock.advance(minutes=5, seconds=1)
        assert [len(group.members) for group in broker.groups()] == [0]
        broker.faults.clear()
    finally:
        await consumer.stop()


def test_while_the_clock_is_paused_no_transaction_times_out(broker: Broker) -> None:
    broker.clock.pause()
    assert broker.clock.is_paused
    before_ms = broker.clock.now_ms
    producer = producer_of(broker, transaction_timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.flush(10)
    broker.clock.advance(seconds=1)
    assert broker.clock.now_ms == before_ms + 1_000
    producer.commit_transaction(10)
    broker.assert_committed("payments", ["42 EUR"])
    broker.clock.resume()
    assert not broker.clock.is_paused


def test_invalid_calls_are_refused_with_a_hint(broker: Broker) -> None:
    with pytest.raises(ControlError, match="there is no API 'EndTransaction'; use Kafka's names"):
        broker.faults.add("EndTransaction", close=True)
    with pytest.raises(ControlError, match="do must have one verb"):
        broker.faults.add("EndTxn")
    with pytest.raises(TypeError, match="advance\\(\\) takes ms, seconds"):
        broker.clock.advance(weeks=1)
    fault = broker.faults.add("EndTxn", close=True)
    fault.remove()
    with pytest.raises(ControlError, match="was removed"):
        assert fault.fired
    with pytest.raises(ControlError, match="cannot be controlled: start it with --control"):
        Broker(None, broker.bootstrap).clock.pause()


def test_a_restarted_broker_has_no_faults_and_can_be_controlled(broker: Broker) -> None:
    broker.faults.add("EndTxn", close=True)
    broker.restart(kill=True)
    assert broker.faults.all() == []
    broker.clock.advance(hours=1)


def test_a_commit_is_handled_when_its_newer_instance_fault_fails(broker: Broker) -> None:
    broker.faults.add(
        "InitProducerId", client_id="stuntbroker-newer-instance", error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    )
    broker.faults.add("EndTxn", newer_instance=True, times=1)
    producer = producer_of(broker)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR")
    producer.commit_transaction(10)

    broker.assert_committed("payments", ["42 EUR"])
    assert "newer_instance_failed" in broker.log
    assert "InitProducerId for 'pay-1' is answered by TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in broker.log
