"""Connections that break at an awkward moment."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import aiokafka.client
import pytest
from model_broker import ModelBroker

from stuntbroker.client import TransactionAbortableError, TransactionalConsumer, TransactionalProducer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.topics import delete_topic
from stuntbroker.client.connections.connections import Connections
from stuntbroker.client.transactional_errors import DisconnectedError
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.api_keys import FIND_COORDINATOR
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import FindCoordinatorResponse


async def test_a_write_that_the_event_loop_refuses_is_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop raises RuntimeError when writing to a closed transport, before it notifies the reader of the end."""
    request = FindCoordinatorRequest("id", 1, ["id"])

    async def run(connections: Connections) -> FindCoordinatorResponse:
        return await connections.ask(1, FIND_COORDINATOR, request, FindCoordinatorResponse, most=3)

    def refuse(data: bytes) -> None:
        raise RuntimeError(f"unable to write {len(data)} bytes; the handler is closed")

    with ModelBroker(2) as broker:
        connections = Connections(bootstrap_servers=str(broker.address))
        await connections.start()
        try:
            await run(connections)
            monkeypatch.setattr((await connections.link(1)).wire.connection._writer, "write", refuse)
            with pytest.raises(DisconnectedError):
                await run(connections)
            assert (await run(connections)).node_id == 1
        finally:
            await connections.stop()


class Bootstrapped:
    """aiokafka's `create_conn`, which fails `failures` times once `is_away` is set."""

    def __init__(self, failures: int) -> None:
        self._create = aiokafka.client.create_conn
        self.is_away = False
        self.failures = failures

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.is_away and self.failures:
            self.failures -= 1
            raise RuntimeError("identity provider: 503")
        return await self._create(*arguments, **options)


async def test_any_failure_to_open_a_connection_is_retried_like_an_unreachable_broker(
    monkeypatch: pytest.MonkeyPatch, stuntbroker: Broker
) -> None:
    created = Bootstrapped(failures=2)
    monkeypatch.setattr(aiokafka.client, "create_conn", created)
    stuntbroker.create_topic("orders")
    options: dict[str, Any] = {"bootstrap_servers": stuntbroker.bootstrap, "retry_backoff_ms": 1}
    async with TransactionalProducer(transactional_id="id", **options) as producer:
        await producer.init_transactions()
        created.is_away = True
        stuntbroker.restart()
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"x")
        await producer.commit_transaction()
    assert created.failures == 0
    stuntbroker.assert_committed("orders", ["x"])


async def test_connections_are_closed_when_the_reading_of_metadata_has_failed(stuntbroker: Broker) -> None:
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    await connections.start()
    link = await connections.link(1)

    async def fail() -> None:
        raise RuntimeError("a defect")

    connections._client._sync_task.cancel()
    connections._client._sync_task = asyncio.ensure_future(fail())
    await asyncio.sleep(0)
    await connections.stop()
    assert not link.wire.connection.connected()


async def test_metadata_that_is_not_answered_is_asked_for_again_over_another_connection(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("orders")
    options: dict[str, Any] = {"bootstrap_servers": stuntbroker.bootstrap, "request_timeout_ms": 300}
    async with TransactionalProducer(transactional_id="id", **options) as producer:
        await producer.init_transactions()
        fault = stuntbroker.faults.add("Metadata", client_id="stuntbroker-producer-*", no_response=True, times=1)
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"x")
        await producer.commit_transaction()
        assert fault.fired == 1
    stuntbroker.assert_committed("orders", ["x"])


@pytest.mark.parametrize(
    "create",
    [
        lambda options: TransactionalProducer(transactional_id="id", **options),
        lambda options: TransactionalConsumer("t", group_id="group", **options),
        lambda options: Connections(**options),
    ],
    ids=["producer", "consumer", "connections"],
)
async def test_a_start_that_is_cancelled_leaves_no_connection_open(
    create: Callable[[dict[str, Any]], Any], stuntbroker: Broker
) -> None:
    fault = stuntbroker.faults.add("Metadata", client_id="cancelled", no_response=True, times=1)
    client = create({"bootstrap_servers": stuntbroker.bootstrap, "client_id": "cancelled"})
    starting = asyncio.create_task(client.start())
    while not await asyncio.to_thread(lambda: fault.fired):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await client.stop()
    gc.collect()  # aiokafka warns of a connection that is not closed.


async def test_unclosed_connections_give_a_resource_warning_with_their_client_id() -> None:
    with ModelBroker(2) as broker:
        connections: list[Connections] = [Connections(bootstrap_servers=str(broker.address), client_id="forgotten")]
        await connections[0].start()
        client = connections[0]._client
        with pytest.warns(ResourceWarning, match="connections of 'forgotten' were not closed: stop them"):
            connections.clear()
            gc.collect()
        await client.close()


async def test_a_deleted_topic_is_created_again_by_a_record_and_not_by_a_refresh_of_metadata(
    stuntbroker: Broker,
) -> None:
    def delete() -> None:
        with Cluster(parse_bootstrap(stuntbroker.bootstrap)) as cluster:
            delete_topic(cluster, "once")

    async with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("once", b"first")
        await asyncio.to_thread(delete)
        for _ in range(2):  # The first response may belong to a request from before the deletion.
            await producer._connections.read_metadata()
        assert await asyncio.to_thread(stuntbroker.topics) == {}
        async with producer.transaction():
            await producer.send("once", b"second")
        assert await asyncio.to_thread(stuntbroker.values, "once") == [b"second"]


async def test_connections_that_are_stopped_stay_in_no_timer(stuntbroker: Broker) -> None:
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    await connections.start()
    links = await asyncio.gather(connections.link(1), connections.link(1))
    assert links[0] is links[1]  # Both calls opened a connection, and both get the one that was ready first.
    connection = weakref.ref(links[0].wire.connection)
    await connections.stop()
    del links, connections
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    assert connection() is None


async def test_metadata_with_a_topic_without_partitions_is_read_again_until_the_time_is_over() -> None:
    class Empty(ModelBroker):
        def metadata(self, request: Any, version: int) -> Any:
            answer = super().metadata(request, version)
            for topic in answer.topics:
                topic.partitions = []
            return answer

    options: dict[str, Any] = {"transactional_id": "id", "retry_backoff_ms": 1, "max_block_ms": 100}
    with Empty(2) as broker:
        async with TransactionalProducer(bootstrap_servers=str(broker.address), **options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with pytest.raises(TransactionAbortableError, match="topic 't' is not known"):
                await producer.send("t", b"0", partition=0)


async def test_a_record_for_a_new_partition_waits_for_metadata_that_no_broker_gives_at_first() -> None:
    class Growing(ModelBroker):
        failures = 0

        def metadata(self, request: Any, version: int) -> Any:
            if self.failures:
                self.failures -= 1
                self.leaders[2] = 1
                return None
            return super().metadata(request, version)

    options: dict[str, Any] = {"transactional_id": "id", "retry_backoff_ms": 1, "max_block_ms": 20_000}
    with Growing(2) as broker:
        async with TransactionalProducer(bootstrap_servers=str(broker.address), **options) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"0", partition=0)
            broker.failures = 5
            await producer.send_and_wait("t", b"2", partition=2)
            await producer.commit_transaction()
        assert broker.committed == [b"0", b"2"]
