"""Encoded batches in transactions, against our broker; errors against one that answers as the test says."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_broker import LiveBroker, batch, committed, held_back, make_topic, rows
from model_broker import ModelBroker

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import end_offset
from stuntbroker.client.commands.transactions import End, end_all
from stuntbroker.client.errors import (
    BrokerError,
    ClientError,
    NotFound,
    ProducerFenced,
    ProducerUnknown,
    TimedOut,
    TransactionAbortable,
    UnsupportedVersion,
)
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.request_values import READ_UNCOMMITTED
from tests.kit.transactions.faults import Fault

TOPIC = "t"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("broker") / "data") as created:
        yield created


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(each if each.isalnum() else "." for each in request.node.name)


@pytest.fixture
def cluster(live: LiveBroker, topic: str) -> Iterator[Cluster]:
    with live.cluster() as created:
        make_topic(created, topic, 2)
        yield created


def check_exactly(cluster: Cluster, topic: str, expected: list[str]) -> None:
    assert held_back(cluster, topic, 2) == []
    assert committed(cluster, topic, 2) == sorted(expected)


def test_produce_sends_its_batch_without_a_further_call(live: LiveBroker, cluster: Cluster, topic: str) -> None:
    """The batch is in the log before the writer makes another call."""
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, batch("early"))
    with live.cluster() as another:
        while not end_offset(another, topic, 0, READ_UNCOMMITTED):
            pass
    writer.commit()
    check_exactly(cluster, topic, ["early"])


def test_two_producers_can_write_in_the_same_transaction(live: LiveBroker, cluster: Cluster, topic: str) -> None:
    """Both use the same producer id and epoch, over two connections and for different partitions; one EndTxn ends both."""
    owner = TransactionalWriter(cluster, topic)
    owner.init()
    pair = owner.pair
    with live.cluster() as another:
        for index, (item, some) in enumerate([(cluster, "a"), (another, "b")]):
            guest = TransactionalWriter(item, topic)
            guest.join(pair)
            for number in range(3):
                guest.produce(topic, index, batch(f"{some}{number}"))
            guest.flush()
    assert committed(cluster, topic, 2) == []
    assert [item.code for item in end_all(cluster, [End(topic, *pair, True)])] == [0]
    check_exactly(cluster, topic, ["a0", "a1", "a2", "b0", "b1", "b2"])


def test_a_second_producer_for_the_same_partition_is_refused(cluster: Cluster, topic: str) -> None:
    owner = TransactionalWriter(cluster, topic)
    owner.init()
    pair = owner.pair
    owner.produce(topic, 0, batch("a", "b"))
    owner.flush()
    guest = TransactionalWriter(cluster, topic)
    guest.join(pair)
    guest.produce(topic, 0, batch("c"))
    with pytest.raises(TransactionAbortable, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        guest.flush()
    owner.abort()
    check_exactly(cluster, topic, [])


@pytest.mark.parametrize("two_phase", [False, True])
def test_transactions_one_after_the_other(two_phase: bool, cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase)
    expected = []
    for number in range(4):
        some = rows(f"{number}", 12)
        for at in range(0, 12, 3):
            writer.produce(topic, at % 2, batch(*some[at : at + 3]))
        if number % 2:
            writer.commit()
            expected += some
        else:
            writer.abort()

    check_exactly(cluster, topic, expected)


def test_what_was_written_is_reported_with_its_offsets(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, [batch("a", "b"), batch("c")])
    writer.flush()

    assert writer.written == {(topic, 0): (0, 2, 3)}
    writer.commit()
    assert writer.written == {}


def test_an_empty_transaction_is_no_request(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    pair = writer.pair
    writer.commit()
    writer.abort()
    assert writer.pair == pair


def test_an_instance_that_was_replaced_is_fenced_in_all_it_does(cluster: Cluster, topic: str) -> None:
    old = TransactionalWriter(cluster, topic)
    old.init()
    old.produce(topic, 0, batch("old"))
    old.flush()
    new = TransactionalWriter(cluster, topic)
    new.init()

    old.produce(topic, 0, batch("late"))
    for step in (old.flush, old.commit, old.abort, lambda: old.produce(topic, 0, batch("later"))):
        with pytest.raises(ProducerFenced):
            step()
    new.produce(topic, 0, batch("new"))
    new.commit()
    check_exactly(cluster, topic, ["new"])


def test_a_batch_that_is_too_large_leaves_a_transaction_to_abort(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, batch("a"))
    writer.produce(topic, 0, batch("x" * 1_100_000))
    for step in (writer.flush, writer.commit):
        with pytest.raises(TransactionAbortable, match=r"Produce to .*-0: (MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE)"):
            step()
    writer.abort()
    writer.produce(topic, 0, batch("b"))
    writer.commit()
    check_exactly(cluster, topic, ["b"])


def test_a_transaction_that_an_admin_aborted_cannot_be_committed(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    writer.produce(topic, 0, batch("a"))
    writer.prepare()
    Admin(cluster).force_terminate(topic)
    with pytest.raises(ProducerFenced):
        writer.commit()
    check_exactly(cluster, topic, [])


@pytest.mark.parametrize("level", [1, 2])
def test_the_writer_works_under_both_transaction_versions(level: int, tmp_path: Path) -> None:
    """Version 1 needs AddPartitionsToTxn. With two-phase commit, each transaction has an epoch of its own in both versions."""
    with LiveBroker(tmp_path, f"transaction.version={level}") as each, each.cluster() as cluster:
        make_topic(cluster, TOPIC, 2)
        writer = TransactionalWriter(cluster, "w")
        writer.init(two_phase=True)
        pairs = {writer.pair}
        for number in range(3):
            writer.produce(TOPIC, 0, batch(f"{number}"))
            writer.produce(TOPIC, 1, batch(f"{number}"))
            assert writer.prepare() == writer.pair
            (writer.abort if number == 1 else writer.commit)()
            pairs.add(writer.pair)
        check_exactly(cluster, TOPIC, ["0", "0", "2", "2"])
    assert len(pairs) == 4


@pytest.mark.parametrize("is_prepared", [True, False])
def test_an_open_transaction_can_be_recovered_and_committed_by_a_new_writer(
    is_prepared: bool, cluster: Cluster, topic: str
) -> None:
    """KIP-939: a new writer takes over the open transaction, and cannot add records to it."""
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    writer.produce(topic, 1, batch("a"))
    (writer.prepare if is_prepared else writer.flush)()

    after = TransactionalWriter(cluster, topic)
    assert after.init(two_phase=True, keep=True)
    with pytest.raises(ClientError, match="in a prepared transaction"):
        after.produce(topic, 1, batch("more"))
    after.commit()
    check_exactly(cluster, topic, ["a"])
    assert not TransactionalWriter(cluster, topic).init(two_phase=True, keep=True)


def test_closing_the_cluster_leaves_the_transaction_of_its_writer_open(
    live: LiveBroker, cluster: Cluster, topic: str
) -> None:
    with live.cluster() as another:
        writer = TransactionalWriter(another, topic)
        writer.init()
        writer.produce(topic, 0, batch("a"))
        writer.flush()
        pair = writer.pair
    assert held_back(cluster, topic, 2) == [0]
    assert [each.code for each in end_all(cluster, [End(topic, *pair, True)])] == [0]
    check_exactly(cluster, topic, ["a"])


def test_produce_before_init_raises_an_error(cluster: Cluster, topic: str) -> None:
    with pytest.raises(ClientError, match=r"call init\(\) first"):
        TransactionalWriter(cluster, topic).produce(topic, 0, batch("a"))


@pytest.fixture(params=[1, 2])
def model(request: pytest.FixtureRequest) -> Iterator[ModelBroker]:
    with ModelBroker(request.param) as broker:
        yield broker


ANSWERS: dict[tuple[str, int], type[ClientError]] = {
    ("Produce", 10): TransactionAbortable,
    ("Produce", 45): TransactionAbortable,
    ("Produce", 47): ProducerFenced,
    ("Produce", 49): ProducerUnknown,
    ("Produce", 59): ProducerUnknown,
    ("Produce", 53): BrokerError,
    ("Produce", 7): TimedOut,
    ("EndTxn (commit)", 90): ProducerFenced,
    ("EndTxn (commit)", 47): ProducerFenced,
    ("EndTxn (commit)", 49): ProducerUnknown,
    ("EndTxn (commit)", 120): TransactionAbortable,
    ("EndTxn (commit)", 53): BrokerError,
    ("EndTxn (commit)", 51): TimedOut,
}
"""(request, error code of every response to it) -> what the writer raises."""


@pytest.mark.parametrize(("request_kind", "code"), ANSWERS)
def test_each_broker_error_is_raised_as_a_client_error(model: ModelBroker, request_kind: str, code: int) -> None:
    model.script = lambda kind, count: Fault(code) if kind == request_kind else None
    expected = ANSWERS[request_kind, code]
    with Cluster([model.address], 0.2 if expected is TimedOut else 10.0) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        with pytest.raises(ClientError) as raised:
            writer.produce("t", 0, batch("a"))
            writer.commit()
    assert type(raised.value) is expected
    assert getattr(raised.value, "code", code) == code
    assert str(raised.value).startswith("'w'")


def test_a_process_that_forks_gets_an_error_instead_of_its_parents_connections(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    child = os.fork()
    if not child:  # The child must neither raise an exception nor run a handler of pytest.
        status = 1
        try:
            writer.produce(topic, 0, batch("of the child"))
        except ClientError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    writer.produce(topic, 0, batch("of the parent"))
    writer.commit()
    check_exactly(cluster, topic, ["of the parent"])


def test_two_phase_commit_needs_a_broker_that_has_it(model: ModelBroker) -> None:
    model.versions[22] = (0, 5)
    with Cluster([model.address]) as cluster:
        writer = TransactionalWriter(cluster, "w")
        for options in ({"two_phase": True}, {"keep": True}):
            with pytest.raises(UnsupportedVersion, match="InitProducerId 0-5, needed is version 6-6"):
                writer.init(**options)
        writer.init()
        with pytest.raises(ClientError, match="needs enable_2pc=True"):
            writer.prepare()


def test_a_topic_that_does_not_exist_is_not_created(cluster: Cluster, topic: str) -> None:
    with TransactionalWriter(cluster, topic) as writer:
        writer.init()
        for wrong, partition in ((f"{topic}-unknown", 0), (topic, 7)):
            with pytest.raises(NotFound):
                writer.produce(wrong, partition, batch("a"))
        writer.produce(topic, 0, batch("a"))
        writer.commit()
    check_exactly(cluster, topic, ["a"])
    assert all(each.topic != f"{topic}-unknown" for each in cluster.retrying(lambda: cluster.partitions(None)))


def test_a_cluster_that_is_closed_has_no_producers(cluster: Cluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    threads = threading.active_count()
    cluster.close()
    with pytest.raises(ClientError, match="are closed"):
        writer.init()
    assert threading.active_count() == threads - 1
