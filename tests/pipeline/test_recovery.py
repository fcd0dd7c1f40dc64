"""After any failure at any step, each input row is committed once and no open transaction holds back readers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from live_broker import LiveBroker, batch, committed, held_back, make_topic, rows
from sink import PARTITIONS, SINK, TOPIC, Driver, OpenStore, running

from stuntbroker.broker.requests.patterns import SIMPLE, SIMPLE_STARS_MAX
from stuntbroker.client.commands.admin import Description
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.transactions import End, end_all, init_producer
from stuntbroker.client.errors import ClientError, ProducerFenced
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import (
    BatchWentBack,
    DecidedOtherwise,
    Decision,
    DecisionFolder,
    OtherQuery,
    Stored,
    Superseded,
    Transaction,
)
from stuntbroker.pipeline.recovery import DecisionLost, Plan, is_of_sink, pattern, plan, settle, transactional_id
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

FIRST, SECOND = rows("first", 10), rows("second", 10)


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("broker") / "data") as created:
        yield created


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LiveBroker]:
    """A broker of its own for a test, which the test may kill."""
    with LiveBroker(tmp_path / "data") as created:
        yield created


@pytest.fixture
def cluster(broker: LiveBroker) -> Iterator[Cluster]:
    with broker.cluster() as created:
        make_topic(created, TOPIC, PARTITIONS)
        yield created


@pytest.fixture(params=["folder", "topic"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "folder":
        return lambda cluster: DecisionFolder(tmp_path / "decisions", SINK)
    return lambda cluster: DecisionTopic(cluster, "decisions", SINK)


def check_exactly(cluster: Cluster, *expected: Sequence[str]) -> None:
    assert running(cluster) == []
    assert held_back(cluster, TOPIC, PARTITIONS) == []
    assert committed(cluster, TOPIC, PARTITIONS) == sorted(row for some in expected for row in some)


# --- planning

A, B, C = Transaction("s-0-0", 1, 5), Transaction("s-1-0", 2, 0), Transaction("s-0-1", 3, 0)


def described(each: Transaction, state: str = "Ongoing") -> Description:
    return Description(each.transactional_id, 1, state, *each[1:], TIMEOUT_NONE, None, ())


def decided(done: bool, *transactions: Transaction) -> Stored:
    return Stored(Decision("s", "q", 7, transactions), done)


PLANS: dict[str, tuple[Stored | None, list[Description], Plan]] = {
    "nothing": (None, [], Plan((), None, ())),
    "nothing was decided: all that is open is aborted": (
        None, [described(A), described(B)], Plan((), None, (End(*A, False), End(*B, False))),
    ),
    "what was decided is committed, its losers are aborted": (
        decided(False, A, B), [described(A), described(B), described(C)],
        Plan((End(*A, True), End(*B, True)), 7, (End(*C, False),)),
    ),
    "what was decided is committed though it is not listed: it may have been committed already": (
        decided(False, A), [], Plan((End(*A, True),), 7, ()),
    ),
    "what is done is not done again": (decided(True, A, B), [described(C)], Plan((), None, (End(*C, False),))),
    "a later transaction of an id that was decided about is another one": (
        decided(True, A), [described(A._replace(producer_epoch=6))],
        Plan((), None, (End("s-0-0", 1, 6, False),)),
    ),
    "the same epoch of another producer id is another one": (
        decided(False, A), [described(A._replace(producer_id=9))],
        Plan((End(*A, True),), 7, (End("s-0-0", 9, 5, False),)),
    ),
    "a batch without rows is done at once": (decided(False), [], Plan((), 7, ())),
    "what ends by itself is left to it": (
        None, [described(A, "PrepareCommit"), described(B, "PrepareAbort"), described(C, "CompleteCommit")],
        Plan((), None, ()),
    ),
    "an id that is about to begin is taken from who has it": (
        decided(True), [described(C, "Empty")], Plan((), None, (End(*C, False),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_a_recovery_plan_follows_from_the_last_decision_and_the_listed_transactions(case: str) -> None:
    last, actual, expected = PLANS[case]

    assert plan(last, actual) == expected


def test_the_pattern_of_a_sink_matches_its_own_transactional_ids_only() -> None:
    ids = [transactional_id(sink, 10, 2) for sink in ("a", "a-1", "a.b", "axb", "a-1-0")]
    for sink, own in zip(("a", "a-1", "a.b", "axb", "a-1-0"), ids, strict=True):
        assert [each for each in (*ids, f"{sink}-decisions", f"x{own}") if is_of_sink(each, sink)] == [own]
        assert re.fullmatch(pattern(sink), own)


def test_a_broker_without_re2_can_list_the_ids_of_every_sink() -> None:
    for sink in ("orders", "a.b_c-d", ".-", "-" * 180):
        assert SIMPLE.fullmatch(pattern(sink))
        assert pattern(sink).count(".*") <= SIMPLE_STARS_MAX


@pytest.mark.parametrize("sink", ["", "a b", "a/b", "..", "ä", "x" * 181])
def test_a_sink_id_that_is_no_name_is_refused(sink: str) -> None:
    with pytest.raises(ValueError, match="sink id"):
        transactional_id(sink, 0, 0)


# --- the cases


def test_batches_are_committed_when_nothing_fails(cluster: Cluster, open_store: OpenStore) -> None:
    driver = Driver(cluster, open_store)
    driver.run(0, FIRST)
    driver.run(1, SECOND)

    check_exactly(cluster, FIRST, SECOND)


def test_a_retry_of_a_task_in_the_last_batch_leaves_no_loser(cluster: Cluster, open_store: OpenStore) -> None:
    """Case A. The loser has no time-out: without the abort in commit() it would hold back the rows of the winner."""
    driver = Driver(cluster, open_store)
    driver.begin()
    driver.task(0, 0, FIRST[:6])  # The worker dies, and its transaction stays open.
    driver.commit(0, [driver.task(0, 0, FIRST, slot=1)])

    check_exactly(cluster, FIRST)


def test_a_losing_speculative_attempt_is_fenced_by_the_commit(cluster: Cluster, open_store: OpenStore) -> None:
    """Case B: commit() fences attempts that have written records, and attempts that are only initialised."""
    driver = Driver(cluster, open_store)
    driver.begin()
    slow = TransactionalWriter(cluster, transactional_id(SINK, 0, 0))
    slow.init(two_phase=True)
    slow.produce(TOPIC, 0, batch("late"))
    slow.flush()
    begun = TransactionalWriter(cluster, transactional_id(SINK, 1, 0))
    begun.init(two_phase=True)
    driver.commit(0, [driver.task(0, 0, FIRST[:5], slot=1), driver.task(1, 0, FIRST[5:], slot=1)])

    for each in (slow, begun):
        with pytest.raises(ProducerFenced):
            each.produce(TOPIC, 0, batch("too late"))
            each.flush()
    check_exactly(cluster, FIRST)


def test_transactions_of_a_driver_that_dies_before_its_decision_are_aborted(
    cluster: Cluster, open_store: OpenStore
) -> None:
    """Case C: prepared transactions never expire; the next driver aborts them and writes the batch again."""
    dead = Driver(cluster, open_store)
    dead.run(0, FIRST)
    dead.begin()
    dead.task(0, 1, SECOND[:5])
    dead.task(1, 1, SECOND[5:])

    driver = Driver(cluster, open_store)
    assert driver.begin().aborted == 2
    driver.commit(1, [driver.task(0, 1, SECOND)])
    check_exactly(cluster, FIRST, SECOND)


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_the_decision_of_a_dead_driver_is_committed_by_the_next_driver(
    ended: int, cluster: Cluster, open_store: OpenStore
) -> None:
    """Cases D and G: the next driver commits the decided transactions that are still open, and its tasks write nothing."""
    dead = Driver(cluster, open_store)
    dead.begin()
    prepared = [dead.task(index, 0, FIRST[index::2]) for index in range(2)]
    dead.store().decide(dead.decision(0, prepared))
    assert not any(each.code for each in end_all(cluster, [End(*each, True) for each in prepared[:ended] if each]))

    driver = Driver(cluster, open_store)
    settled = driver.begin()
    assert (settled.committed, settled.aborted) == (2, 0)
    assert [driver.task(0, 0, FIRST), driver.task(1, 0, FIRST)] == [None, None]
    driver.commit(0, [None, None])
    check_exactly(cluster, FIRST)
    assert driver.begin().committed == 0


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_batch_is_committed_when_the_broker_is_killed_between_prepare_and_complete(
    is_decided: bool, broker: LiveBroker, cluster: Cluster, open_store: OpenStore
) -> None:
    """Case E: kill -9. The same driver goes on, over the same connections."""
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST[:5]), driver.task(1, 0, FIRST[5:])]
    if is_decided:
        driver.store().decide(driver.decision(0, prepared))
    broker.kill()
    broker.start()

    if is_decided:
        assert driver.abort().committed == 2
    else:
        driver.commit(0, prepared)
    check_exactly(cluster, FIRST)


def test_each_row_is_written_once_when_the_broker_is_killed_during_a_task(broker: LiveBroker, cluster: Cluster) -> None:
    """Batches without a response are resent with the same sequence number, so that each is written once."""
    writer = TransactionalWriter(cluster, transactional_id(SINK, 0, 0))
    writer.init(two_phase=True)
    expected = rows("row", 400)
    for number, row in enumerate(expected):
        writer.produce(TOPIC, number % 2, batch(row))
        if number == 200:
            broker.kill()
            broker.start()
    writer.prepare()
    writer.commit()

    check_exactly(cluster, expected)


def test_batches_are_written_exactly_once_when_epochs_are_exhausted(tmp_path: Path, open_store: OpenStore) -> None:
    """Case F: the transactional id gets a new producer id, so that an epoch alone does not identify a transaction."""
    with (
        LiveBroker(tmp_path / "data", "stuntbroker.initial.producer.epoch=32764") as broker,
        broker.cluster() as cluster,
    ):
        make_topic(cluster, TOPIC, PARTITIONS)
        driver = Driver(cluster, open_store)
        expected, producer_ids = [], set()
        for batch_id in range(6):
            some = rows(f"batch-{batch_id}", 4)
            expected += some
            driver.begin()
            loser = driver.task(1, batch_id, some[:2], slot=1)
            prepared = driver.task(0, batch_id, some)
            assert loser and prepared
            producer_ids.add(prepared.producer_id)
            driver.store().decide(driver.decision(batch_id, [prepared]))
            driver = Driver(cluster, open_store)
            assert (driver.begin().committed, driver.begin().committed) == (1, 0)

        check_exactly(cluster, expected)
        assert len(producer_ids) > 1


def test_transactions_of_unused_task_ids_are_aborted_when_there_are_fewer_tasks(
    cluster: Cluster, open_store: OpenStore
) -> None:
    """Case H: listing finds the transactional ids that are no longer used; transactions of other sinks stay open."""
    dead = Driver(cluster, open_store)
    dead.begin()
    for index in range(12):
        dead.task(index, 0, FIRST, slot=index % 3)
    other = TransactionalWriter(cluster, f"{SINK}-1-0-0")
    other.init(two_phase=True)
    make_topic(cluster, "other")
    other.produce("other", 0, batch("of another sink"))
    other.prepare()

    Driver(cluster, open_store).run(0, FIRST, tasks=1)

    assert running(cluster) == [other.transactional_id]
    other.commit()
    check_exactly(cluster, FIRST)


Step = Callable[[Driver], object]
ZOMBIES: dict[str, Step] = {
    "decides": lambda zombie: zombie.store().decide(zombie.decision(1, ())),
    "commits": lambda zombie: zombie.commit(1, ()),
    "aborts": lambda zombie: zombie.abort(),
}


@pytest.mark.parametrize("step", ZOMBIES)
def test_a_driver_that_was_thought_dead_can_do_nothing(step: str, cluster: Cluster, open_store: OpenStore) -> None:
    """Case I: a second driver of the same query, from the same checkpoint, invalidates the claim of the first driver."""
    zombie = Driver(cluster, open_store)
    zombie.run(0, FIRST)
    zombie.begin()
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 1, SECOND)]

    with pytest.raises(Superseded):
        ZOMBIES[step](zombie)

    driver.commit(1, prepared)
    check_exactly(cluster, FIRST, SECOND)


def test_a_driver_that_is_overtaken_after_its_listing_aborts_nothing(
    cluster: Cluster, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case I, in a narrow window: the listed transactions belong to the new driver, so the old one must not end them."""
    zombie = Driver(cluster, open_store)
    zombie.begin()
    store = zombie.store()
    store.last()
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST)]
    monkeypatch.setattr(store, "last", lambda: None)  # It had read this before the takeover.

    with pytest.raises(Superseded):
        settle(cluster, store, SINK)

    monkeypatch.undo()
    driver.commit(0, prepared)
    check_exactly(cluster, FIRST)


def test_an_abort_after_a_decision_commits(cluster: Cluster, open_store: OpenStore) -> None:
    """Case J: Spark calls abort() after commit() has raised, even when the decision was durable."""
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST[:5]), driver.task(1, 0, FIRST[5:])]
    driver.store().decide(driver.decision(0, prepared))  # commit() fails after this step.

    settled = driver.abort()

    assert (settled.committed, settled.aborted) == (2, 0)
    check_exactly(cluster, FIRST)
    driver.run(0, FIRST)  # A restarted query skips the batch.
    driver.run(1, SECOND)
    check_exactly(cluster, FIRST, SECOND)


def test_an_abort_before_a_decision_aborts(cluster: Cluster, open_store: OpenStore) -> None:
    driver = Driver(cluster, open_store)
    driver.begin()
    driver.task(0, 0, FIRST)

    assert driver.abort().aborted == 1
    check_exactly(cluster)
    driver.run(0, FIRST)
    check_exactly(cluster, FIRST)


# --- transactions that another client has recovered or ended


def test_a_transaction_that_a_late_task_recovered_is_ended(cluster: Cluster, open_store: OpenStore) -> None:
    """KIP-939: KeepPreparedTxn raises the epoch, so commit() must recover the transaction again before it ends it."""
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST)]
    driver.task(1, 0, SECOND)  # This attempt is not part of the commit.
    for index in range(2):
        init_producer(cluster, transactional_id(SINK, index, 0), 60_000, two_phase=True, keep=True)
    driver.commit(0, prepared)

    check_exactly(cluster, FIRST)


def test_a_decided_transaction_that_was_aborted_by_hand_is_an_error(cluster: Cluster, open_store: OpenStore) -> None:
    """Rows are missing, so recovery must fail with an error. The sink's other transactions stay open."""
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST)]
    driver.task(1, 0, SECOND)
    driver.store().decide(driver.decision(0, prepared))
    init_producer(cluster, transactional_id(SINK, 0, 0), 60_000)

    for _ in range(2):
        with pytest.raises(DecisionLost, match=r"commit of 'orders-0-0' \d+:\d+ was decided, but"):
            Driver(cluster, open_store).begin()
    assert running(cluster) == [transactional_id(SINK, 1, 0)]


def test_a_decided_transaction_aborted_with_its_own_producer_epoch_is_an_error(
    cluster: Cluster, open_store: OpenStore
) -> None:
    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = driver.task(0, 0, FIRST)
    assert prepared
    driver.store().decide(driver.decision(0, [prepared]))
    end_all(cluster, [End(*prepared, False)])

    with pytest.raises(DecisionLost, match="the coordinator refuses it: INVALID_TXN_STATE"):
        driver.begin()


# --- what the stores refuse, while transactions are open


def test_a_batch_is_decided_once_and_in_order_and_for_one_query(cluster: Cluster, open_store: OpenStore) -> None:
    driver = Driver(cluster, open_store)
    driver.run(4, FIRST)
    driver.begin()
    store = driver.store()
    with pytest.raises(DecidedOtherwise):
        store.decide(driver.decision(4, ()))
    with pytest.raises(BatchWentBack):
        store.decide(driver.decision(3, ()))
    with pytest.raises(OtherQuery, match="a new sink id"):
        Driver(cluster, open_store, "query-2").run(5, SECOND)
    check_exactly(cluster, FIRST)


def test_a_forked_worker_writes_what_its_parent_commits(cluster: Cluster, open_store: OpenStore) -> None:
    """PySpark forks its workers too; the worker passes the transaction's ids and epoch to its parent."""
    driver = Driver(cluster, open_store)
    driver.begin()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with Cluster(cluster.bootstrap) as mine:
                driver.cluster = mine
                prepared = driver.task(0, 0, FIRST)
                assert prepared
                os.write(writing, repr(tuple(prepared)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        name, producer_id, epoch = pipe.read().strip("()").split(", ")
    os.waitpid(child, 0)

    driver.commit(0, [Transaction(name.strip("'"), int(producer_id), int(epoch))])

    check_exactly(cluster, FIRST)


def test_a_thousand_open_transactions_are_settled(shared_broker: LiveBroker, tmp_path: Path) -> None:
    """Half of the transactions are part of the decision, and the other half are aborted."""
    with shared_broker.cluster() as cluster:
        make_topic(cluster, TOPIC, PARTITIONS)
        driver = Driver(cluster, lambda cluster: DecisionFolder(tmp_path, SINK))
        driver.begin()
        prepared = [driver.task(index, 0, [f"{index:03d}", f"{index:03d}"]) for index in range(1_000)]
        driver.store().decide(driver.decision(0, prepared[:500]))
        settled = Driver(cluster, lambda cluster: DecisionFolder(tmp_path, SINK)).begin()

        assert (settled.committed, settled.aborted) == (500, 500)
        check_exactly(cluster, 2 * [f"{index:03d}" for index in range(500)])


def test_a_cluster_that_is_gone_is_an_error_and_nothing_is_lost(
    broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    def open_store(cluster: Cluster) -> DecisionFolder:
        return DecisionFolder(tmp_path / "decisions", SINK)

    driver = Driver(cluster, open_store)
    driver.begin()
    prepared = [driver.task(0, 0, FIRST)]
    broker.kill()
    with broker.cluster(0.2) as impatient:
        driver.cluster = impatient
        with pytest.raises(ClientError):
            driver.commit(0, prepared)
        with pytest.raises(ClientError):
            driver.abort()
    broker.start()

    assert Driver(cluster, open_store).begin().committed == 1
    check_exactly(cluster, FIRST)
