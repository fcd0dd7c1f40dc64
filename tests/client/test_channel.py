"""Requests without waiting for each other, and a process that forks."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from fake_broker import FakeBroker, HandClock

from stuntbroker.client.channel import ChannelCluster, wait_for
from stuntbroker.client.errors import ClientError, ConnectionFailed, Unreachable, UnsupportedVersion
from stuntbroker.client.transactions import init_producer
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse

END_TXN = 26


def in_a_child(work: Callable[[], str]) -> str:
    """What a forked child says, and that it ended as it should."""
    reading, writing = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        try:
            os.write(writing, work().encode())
        except BaseException as fault:
            os.write(writing, f"{type(fault).__name__}: {fault}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    assert os.waitpid(process_id, 0)[1] == 0
    return said


def ask(cluster: ChannelCluster, producer_id: int = 1) -> int:
    answer = cluster.ask(1, END_TXN, EndTxnRequest("t", producer_id, 2, True), EndTxnResponse)
    return answer.error_code


def test_answers_belong_to_their_requests_in_order(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse(0, 0, request.producer_id, 0)
    with ChannelCluster([broker.address]) as cluster:
        channel = cluster.channel(1)
        pending = [channel.send(END_TXN, 5, EndTxnRequest("t", n, 0, True), EndTxnResponse) for n in range(100)]
        wait_for(cluster.loop, pending, 10)

        assert [each.result().producer_id for each in pending] == list(range(100))


def test_a_connection_that_breaks_fails_all_that_is_under_way(broker: FakeBroker) -> None:
    def break_at_two(request: Any, version: int) -> EndTxnResponse | None:
        return None if request.producer_id == 2 else EndTxnResponse()

    broker.handlers[END_TXN] = break_at_two
    with ChannelCluster([broker.address]) as cluster:
        channel = cluster.channel(1)
        pending = [channel.send(END_TXN, 5, EndTxnRequest("t", n, 0, True), EndTxnResponse) for n in range(5)]
        wait_for(cluster.loop, pending, 10)

        assert all(each.future.exception() for each in pending[2:])
        with pytest.raises(ConnectionFailed, match=r"EndTxn to 127\.0\.0\.1:\d+: "):
            pending[3].result()
        with pytest.raises(ConnectionFailed, match="the connection is closed"):
            channel.send(END_TXN, 5, EndTxnRequest(), EndTxnResponse)


def test_an_answer_that_cannot_be_read_breaks_the_connection(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: bytes.fromhex("00000005 00000003 00")
    with ChannelCluster([broker.address]) as cluster, pytest.raises(ConnectionFailed, match="EndTxn to "):
        ask(cluster)


def test_a_broker_that_is_not_there_is_said_as_the_plain_connection_says_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        ChannelCluster([Address("127.0.0.1", port)]) as cluster,
        pytest.raises(Unreachable, match=rf"cannot connect to 127\.0\.0\.1:{port}: .*(refused|Connect call failed)"),
    ):
        cluster.retrying(cluster.broker_ids)


def test_a_broker_that_is_too_old_is_said_with_its_versions(broker: FakeBroker) -> None:
    broker.versions[END_TXN] = (0, 4)
    broker.versions[22] = (0, 5)
    with ChannelCluster([broker.address]) as cluster:
        assert cluster.version(1, END_TXN) == 4
        with pytest.raises(UnsupportedVersion, match="has InitProducerId 0-5, needed is version 6-6"):
            cluster.version(1, 22, least=6)


def test_what_was_made_before_a_fork_is_refused_in_the_child_and_goes_on_in_the_parent(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()
    with ChannelCluster([broker.address]) as cluster:
        assert ask(cluster) == 0

        said = in_a_child(lambda: str(ask(cluster, producer_id=99)))

        assert said.startswith("ClientError: this connection belongs to process ")
        assert said.endswith("make a new one after the fork")
        assert ask(cluster) == 0
        assert [request.producer_id for name, _, request in broker.seen if name == "EndTxn"] == [1, 1]


def test_a_child_that_forgets_what_it_inherited_leaves_it_to_its_parent(broker: FakeBroker) -> None:
    """Both share one epoll: a child that closes the loop would take the parent's sockets out of it."""
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()
    kept = [ChannelCluster([broker.address])]
    assert ask(kept[0]) == 0

    def forget() -> str:
        warnings.simplefilter("ignore")  # As errors they would keep the finalizers from what they do.
        kept[0].close()
        kept.clear()
        gc.collect()
        return "forgotten"

    assert in_a_child(forget) == "forgotten"
    with kept[0]:
        assert ask(kept[0]) == 0


def test_a_child_makes_its_own(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()

    def work() -> str:
        with ChannelCluster([broker.address]) as mine:
            return str(ask(mine))

    with ChannelCluster([broker.address]) as cluster:
        assert ask(cluster) == 0
        assert [in_a_child(work), in_a_child(work)] == ["0", "0"]
        assert ask(cluster) == 0


async def test_inside_a_running_loop_it_says_what_to_do(broker: FakeBroker) -> None:
    with (
        ChannelCluster([broker.address], 5.0) as here,
        pytest.raises(ClientError, match="use the blocking client from"),
    ):
        here.broker_ids()

    def elsewhere() -> None:
        with ChannelCluster([broker.address]) as cluster:
            actual.append(cluster.broker_ids())

    actual: list[list[int]] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert actual == [[1]]


def test_a_busy_coordinator_is_asked_again_on_the_same_connection(broker: FakeBroker) -> None:
    """CONCURRENT_TRANSACTIONS says that all is where it was: nothing has to be looked up."""
    clock, codes = HandClock(), [51, 51, 0]
    broker.handlers[22] = lambda request, version: InitProducerIdResponse(0, codes.pop(0), 4, 0)
    with ChannelCluster([broker.address], 10.0, clock.now_s, clock.sleep) as cluster:
        assert init_producer(cluster, "t", 1_000).pair == (4, 0)
    assert broker.names().count("FindCoordinator") == 1
    assert len(clock.slept) == 2
