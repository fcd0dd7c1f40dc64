"""Requests that the broker sends to itself for a test use a listener that serves them, with every personality."""

from __future__ import annotations

from collections.abc import Iterable

import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.broker.requests.personality import PERSONALITIES
from stuntbroker.fixture.control import ControlClient, ControlError
from tests.kit.processes.process import serving

APIS_THAT_CAN_BE_DELAYED = ("Produce", "AddPartitionsToTxn", "WriteTxnMarkers", "EndTxn")
TWO_LISTENERS = {
    "listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
    "listener.security.protocol.map": "OLD:PLAINTEXT,NEW:PLAINTEXT",
    "stuntbroker.personality": "OLD:2.5,NEW:4.3",
}


def producer_of(bootstrap: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay-1", "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("payments", "42 EUR", partition=0)
    producer.flush(10)
    return producer


def check_zombie_and_delayed_requests(control: ControlClient, bootstrap: str, apis: Iterable[str]) -> None:
    producer_of(bootstrap)
    for api in apis:
        where = {} if api == "EndTxn" else {"topic": "payments"}
        assert control.post("/v1/late", {"api": api, "transactional_id": "pay-1", **where})["api"] == api
    control.post("/v1/reset", {})
    producer = producer_of(bootstrap)
    control.post("/v1/faults", {"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"newer_instance": True}})
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(10)
    assert control.get("/v1/faults")["faults"][0]["fired"] == 1
    assert control.get("/v1/fences")["fences"][-1]["cause"] == "newer_instance"


@pytest.mark.parametrize("release", PERSONALITIES)
def test_newer_instances_and_delayed_requests_work_with_every_personality(release: str) -> None:
    with stuntbroker.broker({"stuntbroker.personality": release}, topics={"payments": 1}) as broker:
        served = [api for api in APIS_THAT_CAN_BE_DELAYED if release > "2.5" or api != "WriteTxnMarkers"]
        check_zombie_and_delayed_requests(broker.control, broker.bootstrap, served)


def test_a_marker_of_a_version_that_no_listener_serves_is_refused_with_the_reason() -> None:
    with stuntbroker.broker({"stuntbroker.personality": "2.5"}, topics={"payments": 1}) as broker:
        producer_of(broker.bootstrap)
        with pytest.raises(
            ControlError, match="no listener of this broker serves WriteTxnMarkers; set a later release"
        ):
            broker.deliver_late("WriteTxnMarkers", "pay-1", topic="payments")


def test_a_broker_with_two_personalities_keeps_its_listener_addresses_over_a_restart() -> None:
    with stuntbroker.broker(TWO_LISTENERS, topics={"payments": 1}) as broker:
        before = broker.listeners
        assert before.keys() == {"OLD", "NEW"}
        for at in before.values():
            producer_of(at).commit_transaction(10)
        broker.restart()
        for at in before.values():
            producer_of(at).commit_transaction(10)
        assert broker.values("payments") == [b"42 EUR"] * 4


def test_own_requests_use_a_listener_that_serves_their_version() -> None:
    settings = [text for name, value in TWO_LISTENERS.items() for text in ("--set", f"{name}={value}")]
    with serving("--control", "--topic", "payments:1", *settings) as broker:
        ready = dict(word.split("=", 1) for word in broker.line.split()[1:])
        control = ControlClient(ready["control"])
        check_zombie_and_delayed_requests(control, ready["listener.NEW"], APIS_THAT_CAN_BE_DELAYED)
        control.close()
