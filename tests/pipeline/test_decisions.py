"""The two stores of decisions keep the same rules."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_broker import LiveBroker

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import topic_config
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.pipeline.decision_stores import decisions_place, open_decisions
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import (
    KEPT_BATCHES_MAX,
    WRITE_IDS_MAX,
    BatchWentBack,
    BatchWrite,
    DecidedOtherwise,
    Decision,
    DecisionError,
    DecisionFolder,
    Decisions,
    FolderLocked,
    NotDone,
    OtherQuery,
    Stored,
    Superseded,
    TooManyWriteIds,
    Transaction,
    is_decided,
    is_written,
    writes_after,
)
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import build_batch

A, B = Transaction("s-0-0", 1, 2), Transaction("s-1-0", 3, 4)
Open = Callable[[], Decisions]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with LiveBroker(tmp_path_factory.mktemp("broker") / "data") as broker, broker.cluster() as created:
        yield created


@pytest.fixture
def sink(request: pytest.FixtureRequest) -> str:
    return "".join(each if each.isalnum() else "." for each in request.node.name)


@pytest.fixture(params=["folder", "topic"])
def opened(request: pytest.FixtureRequest, sink: str, tmp_path: Path, cluster: Cluster) -> Open:
    where = {"folder": f"dir:{tmp_path / 'decisions'}", "topic": "kafka:decisions"}[request.param]
    return lambda: open_decisions(decisions_place(where), sink, cluster)


@pytest.fixture
def store(opened: Open) -> Decisions:
    created = opened()
    created.take()
    return created


def decision(batch_id: int, *transactions: Transaction, query_id: str = "q") -> Decision:
    return Decision("s", query_id, batch_id, transactions)


def decide(store: Decisions, *batch_ids: int) -> None:
    for batch_id in batch_ids:
        store.decide(decision(batch_id, A))
        store.done(batch_id)


def test_a_new_sink_has_decided_nothing(store: Decisions) -> None:
    assert store.last() is None


def test_a_decision_is_visible_to_every_later_process(store: Decisions, opened: Open) -> None:
    store.decide(decision(7, A, B))
    after = opened()
    assert after.take() > 1
    assert after.last() == Stored(decision(7, A, B), False)
    after.done(7)
    restarted = opened()
    restarted.take()
    assert restarted.last() == Stored(decision(7, A, B), True)


REFUSED: dict[str, tuple[Decision, type[DecisionError]]] = {
    "the same batch, other transactions": (decision(7, B), DecidedOtherwise),
    "the same batch, one less": (decision(7), DecidedOtherwise),
    "a batch before": (decision(6, B), BatchWentBack),
    "long before": (decision(0, A), BatchWentBack),
    "another query, a later batch": (decision(8, B, query_id="p"), OtherQuery),
    "another query, from its start": (decision(0, B, query_id="p"), OtherQuery),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_refused_decision_changes_nothing(case: str, is_done: bool, store: Decisions) -> None:
    store.decide(decision(7, A))
    if is_done:
        store.done(7)
    wrong, kind = REFUSED[case]
    with pytest.raises(kind):
        store.decide(wrong)
    assert store.last() == Stored(decision(7, A), is_done)


def test_a_batch_cannot_be_decided_before_the_previous_batch_is_done(store: Decisions) -> None:
    store.decide(decision(7, A))
    with pytest.raises(NotDone, match="batch 8 cannot be decided before batch 7 is done"):
        store.decide(decision(8, B))
    store.done(7)
    store.decide(decision(8, B))
    assert store.last() == Stored(decision(8, B), False)


def test_deciding_and_completing_a_batch_are_idempotent(store: Decisions) -> None:
    for _ in range(2):
        store.decide(decision(7, A))
    for _ in range(2):
        store.done(7)
        store.decide(decision(7, A))
    assert store.last() == Stored(decision(7, A), True)


def test_the_last_version_of_every_write_is_decided_with_the_batch(store: Decisions, opened: Open) -> None:
    for batch_id, write in enumerate((BatchWrite("a", 1), BatchWrite("b", 5), None, BatchWrite("a", 2))):
        last = store.last()
        assert not is_written(last, write)
        store.decide(decision(batch_id)._replace(writes=writes_after(last, write)))
        store.done(batch_id)
    after = opened()
    after.take()
    last = after.last()

    versions = {each: [is_written(last, BatchWrite(each, number)) for number in (1, 2, 5, 6)] for each in "abc"}
    assert versions == {"a": [True, True, False, False], "b": [True, True, True, False], "c": [False] * 4}


def test_a_sink_rejects_write_ids_above_the_maximum_number() -> None:
    full = Stored(decision(0)._replace(writes=tuple(BatchWrite(f"{n}", 1) for n in range(WRITE_IDS_MAX))), True)

    assert len(writes_after(full, BatchWrite("7", 2))) == WRITE_IDS_MAX
    with pytest.raises(TooManyWriteIds, match="keep one writeId for all versions of a write"):
        writes_after(full, BatchWrite("one more", 1))


def test_batch_ids_may_be_skipped_and_a_batch_may_be_empty(store: Decisions) -> None:
    decide(store, 3)
    store.decide(decision(9))
    assert store.last() == Stored(decision(9), False)


def test_processes_of_one_driver_share_its_claim(opened: Open) -> None:
    """In Spark, different processes of a driver plan, commit and abort; all use the same claim, in any order."""
    planner = opened()
    claim = planner.take()
    committer, aborter = opened(), opened()
    committer.resume(claim)
    aborter.resume(claim)
    committer.decide(decision(0, A))
    aborter.resume(claim)
    assert aborter.last() == Stored(decision(0, A), False)
    aborter.done(0)
    committer.check()
    committer.decide(decision(1, B))
    planner.check()
    assert planner.last() == Stored(decision(1, B), False)


def test_every_call_of_a_superseded_process_fails_and_changes_nothing(opened: Open) -> None:
    zombie = opened()
    claim = zombie.take()
    decide(zombie, 0)
    owner = opened()
    assert owner.take() > claim
    steps: list[Callable[[], object]] = [
        zombie.check, lambda: zombie.decide(decision(1, A)), lambda: zombie.done(0), lambda: opened().resume(claim),
    ]  # fmt: skip
    for step in steps:
        with pytest.raises(Superseded):
            step()
    owner.check()
    assert owner.last() == Stored(decision(0, A), True)
    owner.decide(decision(1, B))
    with pytest.raises(Superseded):
        zombie.decide(decision(1, A))
    assert owner.last() == Stored(decision(1, B), False)


def test_a_reader_of_the_folder_takes_no_lock(opened: Open) -> None:
    assert opened().peek() is None
    owner, looker = opened(), opened()
    owner.take()
    for batch_id in range(2):
        owner.decide(decision(batch_id, A))
        assert looker.peek() == Stored(decision(batch_id, A), False)
        owner.done(batch_id)
    owner.check()


def test_peek_does_not_wait_for_an_open_transaction_of_another_sink(cluster: Cluster) -> None:
    """An open transaction of another sink can hold back the topic's readers until its time-out; `peek` reads up to it."""
    store = DecisionTopic(cluster, "held", "s")
    store.take()
    decide(store, 0)
    dead = TransactionalWriter(cluster, "dead-decisions")
    dead.init()
    dead.produce("held", 0, build_batch([(b"dead", b"{}")], 0))
    dead.flush()

    assert DecisionTopic(cluster, "held", "s").peek() == Stored(decision(0, A), True)
    dead.abort()


def test_decisions_of_different_sinks_are_independent(opened: Open, cluster: Cluster, tmp_path: Path) -> None:
    mine = opened()
    mine.take()
    decide(mine, 5)
    for other in (DecisionFolder(tmp_path / "decisions", "other"), DecisionTopic(cluster, "decisions", "other")):
        other.take()
        assert other.last() is None
    mine.check()


def test_the_last_of_many_decisions_is_returned(store: Decisions) -> None:
    decide(store, *range(40))
    assert store.last() == Stored(decision(39, A), True)


def test_a_decision_may_contain_thousands_of_transactions(store: Decisions) -> None:
    many = tuple(Transaction(f"sink-{number}-0", 10**12 + number, number) for number in range(2_000))
    store.decide(decision(1, *many))
    assert store.last() == Stored(decision(1, *many), False)


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä", "x" * 181])
def test_a_sink_id_that_is_no_name_is_refused(name: str, tmp_path: Path, cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="sink id"):
        DecisionFolder(tmp_path, name)
    with pytest.raises(ValueError, match="sink id"):
        DecisionTopic(cluster, "decisions", name)


@pytest.mark.parametrize("where", ["", "dir", "dir:", "kafka:", "file:x", "/tmp/x"])
def test_decisions_in_neither_a_topic_nor_a_folder_are_rejected(where: str) -> None:
    with pytest.raises(ValueError, match="it must be kafka:TOPIC or dir:PATH"):
        decisions_place(where)


VERDICTS = {(None, "q", 0): False, ("last", "q", 6): True, ("last", "q", 7): True, ("last", "q", 8): False}


@pytest.mark.parametrize(("known", "query_id", "batch_id"), VERDICTS)
def test_a_task_skips_what_was_decided(known: str | None, query_id: str, batch_id: int) -> None:
    last = Stored(decision(7, A), True) if known else None
    assert is_decided(last, query_id, batch_id) is VERDICTS[known, query_id, batch_id]


def test_a_task_of_another_query_is_refused_even_a_batch_that_was_decided() -> None:
    """A query with a new checkpoint counts batches from 0 again; skipping these batches would lose rows."""
    with pytest.raises(OtherQuery, match="needs a new sink id"):
        is_decided(Stored(decision(7, A), True), "other", 0)


# --- the folder


def _decide_at_once(path: Path, number: int, start: object, said: object) -> None:
    store = DecisionFolder(path, "s")
    store.resume(1)
    start.wait()  # type: ignore[attr-defined]
    try:
        store.decide(decision(0, Transaction(f"s-{number}-0", number, 0)))
        said.put(number)  # type: ignore[attr-defined]
    except DecidedOtherwise:
        said.put(-1)  # type: ignore[attr-defined]


def test_exactly_one_of_several_concurrent_decisions_succeeds(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    store = DecisionFolder(tmp_path, "s")
    store.take()
    start, said = context.Barrier(6), context.Queue()
    children = [context.Process(target=_decide_at_once, args=(tmp_path, n, start, said)) for n in range(6)]
    for each in children:
        each.start()
    actual = sorted(said.get(timeout=30) for _ in children)
    for each in children:
        each.join(30)

    assert actual[:5] == [-1] * 5
    assert store.last() == Stored(decision(0, Transaction(f"s-{actual[5]}-0", actual[5], 0)), False)


def _take(path: Path, start: object, said: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    said.put([DecisionFolder(path, "s", time.sleep).take() for _ in range(20)])  # type: ignore[attr-defined]


def test_concurrent_processes_never_get_the_same_claim(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, said = context.Barrier(5), context.Queue()
    children = [context.Process(target=_take, args=(tmp_path, start, said)) for _ in range(5)]
    for each in children:
        each.start()
    claims = [claim for _ in children for claim in said.get(timeout=30)]
    for each in children:
        each.join(30)

    assert sorted(claims) == list(range(1, 101))
    assert sorted(os.listdir(tmp_path / "s")) == [".lock", "owner-100"]


def _take_and_freeze(path: Path) -> None:
    """Take the sink, but stop this process (SIGSTOP) while it holds the lock."""
    store = DecisionFolder(path, "s")
    owner = store._owner

    def freeze() -> int:
        os.kill(os.getpid(), signal.SIGSTOP)
        return owner()

    store._owner = freeze  # type: ignore[method-assign]
    store.take()


@pytest.mark.parametrize(("sent", "claim"), [(signal.SIGKILL, 2), (signal.SIGCONT, 3)])
def test_a_process_that_is_frozen_while_it_takes_a_sink_is_named(sent: int, claim: int, tmp_path: Path) -> None:
    """Other processes stop waiting and report the frozen process. After it ends or continues, they can take the sink."""
    DecisionFolder(tmp_path, "s").take()
    frozen = multiprocessing.get_context("fork").Process(target=_take_and_freeze, args=(tmp_path,))
    frozen.start()
    assert frozen.pid is not None
    os.waitpid(frozen.pid, os.WUNTRACED)
    store = DecisionFolder(tmp_path, "s", time.sleep, wait_s=0.05)
    for step in (store.take, store.peek):
        with pytest.raises(
            FolderLocked, match=f"process {frozen.pid} on host {socket.gethostname()}.*kill the process"
        ):
            step()
    os.kill(frozen.pid, sent)
    frozen.join(30)

    assert store.take() == claim


def test_a_partly_written_decision_is_ignored(tmp_path: Path) -> None:
    """A process killed before it links the decision leaves a file whose name starts with a dot."""
    store = DecisionFolder(tmp_path, "s")
    claim = store.take()
    (tmp_path / "s" / f"owner-{claim}" / ".3.decided-99").write_text('{"sink": "s", "qu')

    assert store.last() is None
    store.decide(decision(3, A))
    assert store.last() == Stored(decision(3, A), False)


def test_a_decision_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    store = DecisionFolder(tmp_path, "s")
    store.take()
    store.decide(decision(3, A, B))
    text = (tmp_path / "s" / "owner-1" / "3.decided").read_text()

    assert json.loads(text) == {
        "sink": "s",
        "query": "q",
        "batch": 3,
        "transactions": [["s-0-0", 1, 2], ["s-1-0", 3, 4]],
    }


def test_old_decision_files_are_deleted(tmp_path: Path) -> None:
    store = DecisionFolder(tmp_path, "s")
    store.take()
    decide(store, *range(KEPT_BATCHES_MAX + 20))

    assert len(os.listdir(tmp_path / "s" / "owner-1")) == 2 * (KEPT_BATCHES_MAX + 1)
    with pytest.raises(BatchWentBack):
        store.decide(decision(3, A))


# --- the topic


def test_the_decisions_topic_is_created_with_compaction(cluster: Cluster) -> None:
    DecisionTopic(cluster, "made", "s").take()

    assert topic_config(cluster, "made", "cleanup.policy") == "compact"
    assert len(cluster.partitions(["made"])) == 1


def test_a_decisions_topic_without_compaction_is_refused(cluster: Cluster) -> None:
    create_topic(cluster, "forgetful", 1, {"cleanup.policy": "delete"})
    with pytest.raises(DecisionError, match=r"cleanup\.policy=delete"):
        DecisionTopic(cluster, "forgetful", "s").take()


def test_a_decision_is_a_record_that_can_be_read(cluster: Cluster) -> None:
    store = DecisionTopic(cluster, "readable", "s")
    store.take()
    store.decide(decision(3, A))
    row = read_partition(cluster, "readable", 0)[-1]

    assert row.key == b"s"
    assert json.loads(row.value or b"") == {
        "owner": 1, "done": False, "sink": "s", "query": "q", "batch": 3, "transactions": [["s-0-0", 1, 2]],
    }  # fmt: skip
