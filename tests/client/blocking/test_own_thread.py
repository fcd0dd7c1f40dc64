"""What waits cannot be called in the thread of the twin itself: it says so, and all goes on."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.structs import TopicPartition

from stuntbroker.client import IllegalStateError, blocking
from stuntbroker.fixture.broker import Broker


class Stopping(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
    """Stops its consumer when it gets partitions, which cannot be."""

    def __init__(self, consumer: blocking.TransactionalConsumer) -> None:
        self._consumer = consumer
        self.refusals: list[IllegalStateError] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Try to stop."""
        with pytest.raises(IllegalStateError) as refused:
            self._consumer.stop()
        self.refusals.append(refused.value)


def test_a_listener_cannot_stop_its_consumer_and_the_application_still_can(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    before = threading.active_count()
    consumer = blocking.TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    consumer.start()
    listener = Stopping(consumer)
    consumer.subscribe(["t"], listener=listener)
    stuntbroker.produce("t", "x")
    assert consumer.getone().value == b"x"
    assert "a callback cannot make a call that waits" in str(listener.refusals[0])
    consumer.stop()
    assert threading.active_count() == before


def test_connections_cannot_be_closed_in_their_own_thread(stuntbroker: Broker) -> None:
    with blocking.Connections(bootstrap_servers=stuntbroker.bootstrap) as connections:
        refused: list[Any] = []

        async def stop() -> None:
            with pytest.raises(IllegalStateError) as raised:
                connections.stop()
            refused.append(raised.value)

        connections.thread.call(stop)
        assert refused and connections.is_open


def test_who_subscribes_before_the_start_reads_from_then_on(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    stuntbroker.produce("in", b"record")
    consumer = blocking.TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    consumer.assign([TopicPartition("other", 0)])
    consumer.subscribe(["other"])
    with pytest.raises(IllegalStateError, match="mutually exclusive"):
        consumer.start()
    consumer.unsubscribe()
    topics = ["in"]
    consumer.subscribe(topics)
    topics.append("other")
    with consumer:
        while not (records := consumer.getmany(timeout_ms=1_000)):
            pass
    assert [record.value for batch in records.values() for record in batch] == [b"record"]
