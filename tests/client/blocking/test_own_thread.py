"""A call that waits is refused in the client's own event-loop thread, with an error, and the client continues to work."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import ConsumerStoppedError
from aiokafka.structs import TopicPartition

from stuntbroker.client import IllegalStateError, blocking
from stuntbroker.client.blocking.claim import Claim
from stuntbroker.fixture.broker import Broker


class Stopping(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
    """Tries to stop its consumer in a rebalance callback, which is refused."""

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


class Seeking(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
    """Seeks to an offset that the application has stored, when partitions are assigned."""

    def __init__(self, consumer: blocking.TransactionalConsumer, offset: int) -> None:
        self._consumer = consumer
        self._offset = offset
        self.assignments: list[frozenset[TopicPartition]] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Seek."""
        for partition in assigned:
            self._consumer.seek(partition, self._offset)
        self.assignments.append(self._consumer.assignment())


@pytest.mark.parametrize("subscribes_before_the_start", [True, False])
def test_a_listener_seeks_to_the_offset_that_the_application_has_stored(
    subscribes_before_the_start: bool, stuntbroker: Broker
) -> None:
    stuntbroker.create_topic("t")
    for value in ("a", "b", "c"):
        stuntbroker.produce("t", value)
    consumer = blocking.TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    listener = Seeking(consumer, 2)
    if subscribes_before_the_start:
        consumer.subscribe(["t"], listener=listener)
    with consumer:
        if not subscribes_before_the_start:
            consumer.subscribe(["t"], listener=listener)
        assert consumer.getone().value == b"c"
    assert listener.assignments == [{TopicPartition("t", 0)}]


def test_a_stop_ends_the_iteration_of_another_thread(stuntbroker: Broker) -> None:
    """As it ends `async for`; a new iteration of a stopped consumer is refused in both."""
    stuntbroker.create_topic("t")
    stuntbroker.produce("t", "x")
    consumer = blocking.TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    consumer.start()
    values: list[bytes] = []
    has_read = threading.Event()

    def read() -> str:
        for record in consumer:
            values.append(record.value)
            has_read.set()
        return "ended"

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        assert has_read.wait(60)
        consumer.stop()
        assert (reading.result(60), values) == ("ended", [b"x"])
    with pytest.raises(ConsumerStoppedError, match="is stopped"):
        iter(consumer)


WITHOUT_STREAM = """
import os, sys
os.close(int(sys.argv[1]))
from stuntbroker.client import blocking
with blocking.TransactionalProducer(bootstrap_servers=sys.argv[2], transactional_id="id") as producer:
    producer.init_transactions()
    with producer.transaction():
        producer.send("t", b"x")
os._exit(7)
"""


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_process_without_a_standard_stream_continues_after_stop(descriptor: int, stuntbroker: Broker) -> None:
    command = [sys.executable, "-c", WITHOUT_STREAM, str(descriptor), stuntbroker.bootstrap]
    assert subprocess.run(command, timeout=60).returncode == 7
    assert stuntbroker.values("t") == [b"x"]


EXIT = """
import asyncio, os, threading
from stuntbroker.client.blocking.loop_thread import LoopThread

begun = [threading.Event() for _ in range(3)]
for number, event in enumerate(begun):
    async def close(event=event, number=number):
        event.set()
        while not all(each.is_set() for each in begun):
            await asyncio.sleep(0.001)
        os.write(1, b"closed\\n")
    LoopThread(str(number)).exit_handlers.append(close)
"""


def test_threads_that_were_not_stopped_close_their_connections_together_at_exit() -> None:
    ended = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n" * 3, "")


def test_connections_cannot_be_closed_in_their_own_thread(stuntbroker: Broker) -> None:
    with blocking.Connections(bootstrap_servers=stuntbroker.bootstrap) as connections:
        refused: list[Any] = []

        async def stop() -> None:
            with pytest.raises(IllegalStateError) as raised:
                connections.stop()
            refused.append(raised.value)

        connections.thread.call(stop)
        assert refused and connections.is_open


def test_a_subscription_before_start_takes_effect_at_start(stuntbroker: Broker) -> None:
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


def test_one_caller_at_a_time_has_a_claim() -> None:
    claim, first, second = Claim(), object(), object()
    assert claim.take(first) and not claim.take(second)
    claim.release(second)
    assert claim.is_of(first) and not claim.is_of(second)
    claim.release(first)
    assert claim.take(second)
