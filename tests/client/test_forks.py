"""A process that forks, and so shares its connections with a child."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable

import pytest
from fake_broker import FakeBroker

from stuntbroker.client import TransactionalConsumer, TransactionalProducer, blocking
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse

END_TXN = 26


def in_a_child(work: Callable[[], str]) -> str:
    """Run `work` in a forked child; return its result, or its exception as text."""
    reading, writing = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        signal.alarm(60)  # Ends a child that hangs.
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


def ask(cluster: Cluster, producer_id: int = 1) -> int:
    answer = cluster.ask(1, END_TXN, EndTxnRequest("t", producer_id, 2, True), EndTxnResponse)
    return answer.error_code


def test_connections_of_before_a_fork_are_refused_in_the_child_and_work_in_the_parent(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()
    with Cluster([broker.address]) as cluster:
        assert ask(cluster) == 0

        said = in_a_child(lambda: str(ask(cluster, producer_id=99)))

        assert said.startswith("ClientError: these connections belong to process ")
        assert said.endswith("make a new one after the fork")
        assert ask(cluster) == 0
        assert [request.producer_id for name, _, request in broker.seen if name == "EndTxn"] == [1, 1]


def test_a_child_that_closes_inherited_connections_leaves_them_open_in_the_parent(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()
    kept = [Cluster([broker.address])]
    assert ask(kept[0]) == 0

    def forget() -> str:
        warnings.simplefilter("ignore")  # Warnings as errors would interrupt finalizers.
        kept[0].close()
        kept.clear()
        gc.collect()
        return "forgotten"

    assert in_a_child(forget) == "forgotten"
    with kept[0]:
        assert ask(kept[0]) == 0


def test_a_child_does_not_wait_for_a_lock_that_the_parent_held_at_the_fork(broker: FakeBroker) -> None:
    """The child lacks the thread that holds the connections."""
    holds, may_go_on = threading.Event(), threading.Event()
    with Cluster([broker.address]) as cluster:

        def hold() -> None:
            with cluster.exclusive_use():
                holds.set()
                may_go_on.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(60)
        try:
            assert in_a_child(lambda: str(ask(cluster))).startswith("ClientError: these connections belong to process ")
            assert in_a_child(lambda: str(cluster.close())) == "None"
        finally:
            may_go_on.set()
            thread.join()


def test_a_child_can_open_connections_of_its_own(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()

    def work() -> str:
        with Cluster([broker.address]) as mine:
            return str(ask(mine))

    with Cluster([broker.address]) as cluster:
        assert ask(cluster) == 0
        assert [in_a_child(work), in_a_child(work)] == ["0", "0"]
        assert ask(cluster) == 0


@pytest.mark.stuntbroker(topics={"t": 1})
def test_blocking_clients_of_before_a_fork_are_refused_in_the_child_and_work_in_the_parent(stuntbroker: Broker) -> None:
    options = {"bootstrap_servers": stuntbroker.bootstrap}
    with (
        blocking.Connections(**options) as connections,
        blocking.TransactionalProducer(connections=connections, transactional_id="id") as producer,
        blocking.TransactionalConsumer("t", group_id="group", **options) as consumer,
    ):
        producer.init_transactions()
        for call in (lambda: consumer.getmany(timeout_ms=1), lambda: str(producer.partitions_for("t"))):
            said = in_a_child(lambda call=call: str(call()))
            assert said.startswith("IllegalStateError: ") and said.endswith("create a new one after the fork")

        assert in_a_child(lambda: str((consumer.stop(), connections.stop()))) == "(None, None)"
        with producer.transaction():
            producer.send("t", b"x")
        assert [each.value for batch in consumer.getmany(timeout_ms=20_000).values() for each in batch] == [b"x"]


@pytest.mark.stuntbroker(topics={"t": 1})
async def test_asyncio_clients_of_before_a_fork_are_refused_in_the_child_and_work_in_the_parent(
    stuntbroker: Broker,
) -> None:
    """A record of the child would have the sequence number of the parent's next one, which would be taken for a duplicate."""
    async with (
        TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id", linger_ms=5) as producer,
        TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="group") as consumer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("t", b"before", partition=0)
        for call in (
            lambda: producer.send("t", b"of the child", partition=0),
            producer.flush,
            producer.commit_transaction,
            producer.stop,
            lambda: producer.partitions_for("elsewhere"),
        ):
            said = in_a_child(lambda call=call: str(asyncio.run(call())))
            assert said.startswith("IllegalStateError: ") and said.endswith("make a new one after the fork")
        said = in_a_child(lambda: str(asyncio.run(consumer.getmany(timeout_ms=1))))
        assert said.startswith("IllegalStateError: ")
        await producer.send("t", b"after", partition=0)
        await producer.commit_transaction()
        records = await consumer.getmany(timeout_ms=20_000)

    assert [each.value for batch in records.values() for each in batch] == [b"before", b"after"]
