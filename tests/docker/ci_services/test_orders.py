"""A test of an application whose broker is a service container of a CI system."""

from __future__ import annotations

from confluent_kafka import Producer

from stuntbroker.fixture.broker import Broker


def test_an_order_is_committed(stuntbroker: Broker) -> None:
    producer = Producer({"bootstrap.servers": stuntbroker.bootstrap, "transactional.id": "orders-1"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"an order")
    producer.commit_transaction()
    stuntbroker.assert_committed("orders", [b"an order"])
