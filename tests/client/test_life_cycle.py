"""Clients started and stopped at awkward moments, twice or by another task; brokers that move, or do not read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaConnectionError, UnknownTopicOrPartitionError
from fake_broker import FakeBroker

from stuntbroker.client import IllegalStateError, TransactionalConsumer, TransactionalProducer, blocking
from stuntbroker.client.connections import connections as connections_module
from stuntbroker.client.connections.connections import Connections
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from tests.kit.processes.free_ports import free_port

pytestmark = pytest.mark.stuntbroker(topics={"in": 1})

CLIENTS: dict[str, Callable[..., Any]] = {
    "consumer": lambda **options: TransactionalConsumer("in", group_id="group", **options),
    "connections": lambda **options: Connections(**options),
    "producer": lambda **options: TransactionalProducer(transactional_id="id", **options),
}
BLOCKING_CLIENTS: dict[str, Callable[..., Any]] = {
    "consumer": lambda **options: blocking.TransactionalConsumer("in", group_id="group", **options),
    "connections": lambda **options: blocking.Connections(**options),
    "producer": lambda **options: blocking.TransactionalProducer(transactional_id="id", **options),
}


class HangingBroker(FakeBroker):
    """Gives no metadata until the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_end = threading.Event(), threading.Event()

    def metadata(self, request: Any, version: int) -> None:  # type: ignore[override]
        self.is_asked.set()
        self.may_end.wait(20)


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def without_error(call: asyncio.Future[Any]) -> bool:
    """Wait for a call; return whether it has succeeded, False if it was refused."""
    try:
        await call
    except IllegalStateError:
        return False
    return True


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20, 30, 40, 60, 80, 120])
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_stop_during_the_start_ends_it_and_leaves_nothing(name: str, turns: int, stuntbroker: Broker) -> None:
    client = CLIENTS[name](bootstrap_servers=stuntbroker.bootstrap)
    before = other_tasks()
    starting = asyncio.ensure_future(client.start())
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0.0005)
    await client.stop()

    await without_error(starting)
    assert not (name == "connections" and client.is_open)
    assert other_tasks() - before == set()
    if name == "consumer":
        groups = await asyncio.to_thread(stuntbroker.groups)
        assert [each for each in groups if each.members] == []


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_stop_ends_a_start_that_waits_for_a_broker(name: str) -> None:
    with HangingBroker() as broker:
        client = CLIENTS[name](bootstrap_servers=str(broker.address))
        starting = asyncio.ensure_future(client.start())
        while not broker.is_asked.is_set():
            await asyncio.sleep(0.001)
        await client.stop()
        with pytest.raises(IllegalStateError, match="stopped"):
            await starting
        broker.may_end.set()
    assert other_tasks() == set()


@pytest.mark.parametrize("name", CLIENTS)
async def test_of_two_starts_at_once_one_is_refused(name: str, stuntbroker: Broker) -> None:
    client = CLIENTS[name](bootstrap_servers=stuntbroker.bootstrap)
    outcomes = await asyncio.gather(*(without_error(asyncio.ensure_future(client.start())) for _ in range(2)))
    await client.stop()

    assert sorted(outcomes) == [False, True]
    assert other_tasks() == set()


@pytest.mark.parametrize("name", BLOCKING_CLIENTS)
def test_of_two_threads_that_start_at_once_one_is_refused(name: str, stuntbroker: Broker) -> None:
    before = set(threading.enumerate())
    client = BLOCKING_CLIENTS[name](bootstrap_servers=stuntbroker.bootstrap)
    outcomes: list[bool] = []

    def start() -> None:
        try:
            client.start()
        except IllegalStateError:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.stop()

    assert sorted(outcomes) == [False, True]
    assert set(threading.enumerate()) - before == set()


@pytest.mark.parametrize("name", BLOCKING_CLIENTS)
def test_another_thread_may_stop_a_client_that_starts(name: str) -> None:
    before = set(threading.enumerate())
    with HangingBroker() as broker:
        client = BLOCKING_CLIENTS[name](bootstrap_servers=str(broker.address))
        raised: list[Exception] = []

        def start() -> None:
            try:
                client.start()
            except IllegalStateError as error:
                raised.append(error)

        starting = threading.Thread(target=start)
        starting.start()
        assert broker.is_asked.wait(20)
        client.stop()
        starting.join(20)

        broker.may_end.set()
        assert [type(each) for each in raised] == [IllegalStateError]
    assert {each for each in threading.enumerate() if each.name.startswith("stuntbroker")} - before == set()


async def test_a_consumer_is_stopped_in_its_own_event_loop_only(stuntbroker: Broker) -> None:
    async with CLIENTS["consumer"](bootstrap_servers=stuntbroker.bootstrap) as consumer:
        for call in (consumer.stop, consumer.getone, consumer.getmany):
            with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was created"):
                await asyncio.to_thread(lambda call=call: asyncio.run(call()))
    assert other_tasks() == set()


async def test_a_consumer_of_an_unknown_topic_fails_to_start_and_names_it(stuntbroker_factory: Any) -> None:
    broker = stuntbroker_factory(**{"auto.create.topics.enable": "false"})
    consumer = TransactionalConsumer(
        "nowhere", bootstrap_servers=broker.bootstrap, group_id="group", request_timeout_ms=300
    )
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'nowhere' is not known"):
        await consumer.start()


async def test_a_rebalance_listener_cannot_stop_its_consumer(stuntbroker: Broker) -> None:
    raised: list[IllegalStateError] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            try:
                await consumer.stop()
            except IllegalStateError as error:
                raised.append(error)

    consumer = TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group")
    consumer.subscribe(["in"], listener=Listener())
    await consumer.start()
    await consumer.stop()

    assert ["a rebalance listener would wait for itself" in str(each) for each in raised] == [True]


async def test_a_consumer_that_does_not_reach_its_coordinator_says_so_and_names_the_address() -> None:
    away = Address("127.0.0.1", free_port())
    with FakeBroker() as broker:
        broker.handlers[3] = lambda request, version: MetadataResponse(
            0, [MetadataResponseBroker(1, *away)], "cluster", 1, broker.metadata(request, version).topics
        )
        consumer = TransactionalConsumer(
            "t", bootstrap_servers=str(broker.address), group_id="group", request_timeout_ms=300, retry_backoff_ms=20
        )
        with pytest.raises(KafkaConnectionError, match=f"no coordinator of group 'group'.* 1 at {away}"):
            await consumer.start()
        assert len(broker._sockets) <= 15  # Requests to the bootstrap server have an increasing back-off.
    assert other_tasks() == set()


async def test_a_consumer_waits_for_a_rebalance_that_takes_longer_than_a_request(stuntbroker: Broker) -> None:
    class Slow(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types.
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if revoked:
                await asyncio.sleep(2)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    options: dict[str, Any] = {"bootstrap_servers": stuntbroker.bootstrap, "group_id": "group"}
    slow = TransactionalConsumer(heartbeat_interval_ms=50, **options)
    slow.subscribe(["in"], listener=Slow())
    async with slow, TransactionalConsumer("in", request_timeout_ms=600, retry_backoff_ms=10, **options) as second:
        assert second.group_metadata().generation_id > 0


async def test_a_second_start_is_refused_and_leaves_the_connections_open(stuntbroker: Broker) -> None:
    async with Connections(bootstrap_servers=stuntbroker.bootstrap) as connections:
        with pytest.raises(IllegalStateError, match="were started before"):
            async with connections:
                raise AssertionError("it was started again")
        assert (await connections.link(1)).address.port


async def test_connections_that_are_stopped_at_the_moment_they_are_open_stay_closed(stuntbroker: Broker) -> None:
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    bootstrap, stopping = connections._client.bootstrap, []

    async def stop_behind() -> None:
        await bootstrap()
        stopping.append(asyncio.ensure_future(connections.stop()))

    connections._client.bootstrap = stop_behind
    with pytest.raises(IllegalStateError, match="stopped meanwhile"):
        await connections.start()
    await stopping[0]
    assert not connections.is_open and other_tasks() == set()


async def test_a_client_finds_brokers_that_have_moved_by_the_bootstrap_servers() -> None:
    with FakeBroker() as bootstrap:
        first, second = FakeBroker(), FakeBroker()
        current = [first]
        bootstrap.handlers[3] = first.handlers[3] = second.handlers[3] = lambda request, version: MetadataResponse(
            0,
            [MetadataResponseBroker(1, *current[0].address)],
            "cluster",
            1,
            bootstrap.metadata(request, version).topics,
        )
        async with Connections(bootstrap_servers=str(bootstrap.address), retry_backoff_ms=1) as connections:
            await connections.read_metadata()
            assert (await connections.link(1)).address == first.address
            with first:  # The first broker stops at the end of the block.
                current[0] = second
            async with asyncio.timeout(20):
                await connections.read_metadata()
            assert (await connections.link(1)).address == second.address
        with second:
            pass


async def test_a_broker_that_reads_nothing_does_not_hold_up_the_end_of_a_connection(
    monkeypatch: pytest.MonkeyPatch, stuntbroker: Broker
) -> None:
    monkeypatch.setattr(connections_module, "CLOSE_S_MAX", 0.01)
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    await connections.start()
    link = await connections.link(1)
    transport = link.wire.connection._writer.transport
    monkeypatch.setattr(link.wire.connection._writer, "close", lambda: None)  # As with a full socket buffer.
    await connections.stop()

    assert transport.is_closing()


async def test_shared_connections_that_are_stopped_refuse_at_once(stuntbroker: Broker) -> None:
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    await connections.start()
    producer = TransactionalProducer(connections=connections, transactional_id="id")
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send_and_wait("in", b"x")
    await connections.stop()
    await asyncio.to_thread(stuntbroker.clock.advance, minutes=2)  # Only the time-out can end the transaction.

    with pytest.raises(IllegalStateError, match="the connections are closed"):
        await producer.partitions_for("another")
    await producer.stop()


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_back_off_of_zero_does_not_occupy_a_processor(name: str) -> None:
    client = CLIENTS[name](bootstrap_servers="localhost:9", retry_backoff_ms=0)
    inner = Connections(**client._connection_options) if name == "producer" else client
    assert inner._client._retry_backoff > 0
    await client.stop()
