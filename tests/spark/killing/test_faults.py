"""Faults of tasks, commits and the broker while the driver lives: each row is written once, and no transaction stays open.

The letters are those of the list of cases in `docs/spark.md`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults import (
    ABORT,
    COMMIT,
    COMMITTED,
    ENDS,
    EXIT,
    FORMAT,
    LOSERS,
    PLAN,
    POLL_S,
    PREPARED,
    RAISE,
    RECOVERED,
    RECOVERY_ENDS,
    ROWS,
    TASK,
    WAIT,
    WAIT_RAISE,
    WRITE,
    Fault,
    Plan,
    failing,
)
from faults_query import (
    PARTITIONS,
    QUERY_S,
    SCHEMA,
    World,
    add_input,
    committed,
    difference,
    findings,
    open_transactions,
    outcome,
    reached,
    rerun,
    rows_of,
    run,
    source,
    start,
    written,
)
from live_broker import LiveBroker, held_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS_MAX = 4
"""Attempts of a task in the session of the tests."""
STORES = ("dir", "kafka")
BATCHES = [rows_of(batch, 40) for batch in range(3)]
LAST = len(BATCHES) - 1
EPOCH_BEFORE_LAST = 32_764
BIG = "x" * 2_000
"""A value so large that some dozens of rows exceed the 64 KiB of the pipe from Python to the JVM."""


@pytest.mark.parametrize(("action", "store"), [(RAISE, "kafka"), (EXIT, "dir")])
def test_case_a_a_task_that_fails_is_tried_again_in_the_last_batch_too(
    action: str, store: str, session: SparkSession, world: World
) -> None:
    """A task fails after some rows, before its transaction begins, and after all rows, once and twice in a row."""
    faults = (
        Fault("rows", ROWS, action, batch=0, partition=0, after=10),
        Fault("task", TASK, action, batch=1, partition=1),
        Fault("prepared", PREPARED, action, batch=1, partition=0, times=2),
        Fault("last", PREPARED, action, batch=LAST, partition=1),
    )
    job = world.job(f"a.{action}", store, BATCHES, *faults)

    assert run(session, job) is None
    assert [job.plan.fired(each) for each in faults] == [1, 1, 2, 1]
    world.check(job)


def test_case_c_a_batch_is_written_once_when_its_commit_and_abort_fail_before_the_decision(
    session: SparkSession, world: World
) -> None:
    """This is like the death of the driver, except that no other driver has taken the sink."""
    faults = Fault("commit", COMMIT, EXIT, batch=LAST), Fault("abort", ABORT, EXIT, batch=LAST)
    job = world.job("c", "kafka", BATCHES, *faults)

    assert run(session, job) is not None
    assert [job.plan.fired(each) for each in faults] == [1, 1]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) == 2
    assert run(session, job) is None
    world.check(job)


@pytest.mark.parametrize("store", STORES)
def test_case_e_a_query_continues_when_the_broker_is_killed_between_prepare_and_complete(
    store: str, session: SparkSession, world: World
) -> None:
    """The broker is killed before the decision, after one of two decided transactions is committed, and while a task writes."""
    faults = (
        Fault("before", COMMIT, WAIT, batch=0),
        Fault("between", ENDS, WAIT, batch=1, after=1),
        Fault("task", ROWS, WAIT, batch=2, partition=0, after=10),
    )
    job = world.job(f"e.{store}", store, BATCHES, *faults)
    query = start(session, job)
    for fault in faults:
        reached(query, job, fault.name)
        world.broker.kill()
        world.broker.start()
        job.plan.go(fault.name)

    assert outcome(query) is None
    world.check(job)


def test_case_f_batches_are_written_once_when_epochs_are_exhausted(
    session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each transactional id gets a new producer id on the way; attempts fail, a commit is repeated, and a batch is aborted."""
    folder = tmp_path_factory.mktemp("epochs")
    batches = [rows_of(batch, 20) for batch in range(5)]
    faults = (
        Fault("losers", PREPARED, partition=0, attempt=0, times=len(batches)),
        Fault("ends", ENDS, batch=1, after=1),
        Fault("commit", COMMIT, EXIT, batch=2),
        Fault("abort", ABORT, EXIT, batch=2),
    )
    with LiveBroker(folder / "data", f"stuntbroker.initial.producer.epoch={EPOCH_BEFORE_LAST}") as broker:
        world = World(folder, broker, folder / "data")
        job = world.job("f", "dir", batches, *faults)

        outcomes = [run(session, job) for _ in range(3)]

        assert [item is None for item in outcomes] == [False, False, True]
        assert [job.plan.fired(item) for item in faults] == [5, 1, 1, 1]
        world.check(job)


@pytest.mark.parametrize("store", STORES)
def test_case_g_a_repeated_batch_is_completed_if_decided_and_rewritten_if_not(
    store: str, session: SparkSession, world: World
) -> None:
    """An undecided batch is written again; a decided batch is committed, and its tasks write nothing."""
    faults = (
        Fault("all", ROWS, batch=0, partition=0, after=10, times=ATTEMPTS_MAX),
        Fault("decided", ENDS, batch=1, after=1),
        Fault("abort", ABORT, batch=1),
        Fault("recovery", RECOVERY_ENDS, after=1),
        Fault("again", PREPARED, RAISE, batch=1, partition=0, skip=1),
    )
    job = world.job(f"g.{store}", store, BATCHES, *faults)

    outcomes = [run(session, job) for _ in range(4)]

    assert [each is None for each in outcomes] == [False, False, False, True]
    assert [job.plan.fired(each) for each in faults] == [ATTEMPTS_MAX, 1, 1, 1, 1]
    world.check(job)


def test_case_h_fewer_tasks_than_before_leave_no_transaction_behind(session: SparkSession, world: World) -> None:
    """The sink finds transactions of task ids that are no longer used by the name of their transactional id."""
    faults = Fault("commit", COMMIT, EXIT, batch=1), Fault("abort", ABORT, EXIT, batch=1)
    job = world.job("h", "dir", BATCHES, *faults, tasks=5)

    assert run(session, job) is not None
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) == 5
    assert run(session, rerun(job, tasks=1)) is None
    world.check(job)


@pytest.mark.parametrize(
    ("store", "fault"),
    [
        ("dir", Fault("ends", ENDS, batch=LAST, after=1)),
        ("kafka", Fault("ends", ENDS, batch=LAST)),
        ("kafka", Fault("committed", COMMITTED, batch=LAST)),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.name} {each.after}",
)
def test_case_j_an_abort_after_the_decision_commits(
    store: str, fault: Fault, session: SparkSession, world: World
) -> None:
    """Spark calls abort() after commit() has raised, even if the batch is decided; abort() then commits the batch."""
    watch = Fault("aborted", ABORT, WAIT)
    job = world.job(f"j.{fault.name}.{fault.after}", store, BATCHES, fault, watch)
    job.plan.go(watch.name)

    assert "Injected" in (run(session, job) or "")
    assert (job.plan.fired(fault), job.plan.fired(watch)) == (1, 1)
    world.check(job)
    assert run(session, job) is None
    world.check(job)


def test_an_attempt_that_is_late_for_a_batch_that_has_failed_leaves_nothing_open(
    session: SparkSession, world: World
) -> None:
    """Spark does not wait for this attempt, which begins after all transactions of the batch were aborted."""
    delayed = Fault("late", TASK, WAIT, batch=LAST, partition=0)
    job = world.job("late", "dir", BATCHES, delayed, Fault("fails", TASK, batch=LAST, partition=1, times=ATTEMPTS_MAX))

    assert run(session, job) is not None
    attempt = job.plan.standing(delayed.name)[0]
    job.plan.go(delayed.name)
    deadline = time.monotonic() + QUERY_S
    while not job.plan.raised(WRITE) and Path(f"/proc/{attempt}").exists():  # Spark may kill the attempt.
        assert time.monotonic() < deadline
        time.sleep(POLL_S)

    with world.broker.cluster() as cluster:
        assert open_transactions(cluster, job.sink) == []
        assert held_back(cluster, job.topic, PARTITIONS) == []
    assert run(session, job) is None
    world.check(job)


@pytest.mark.parametrize(("mode", "store"), [("2pc", "dir"), ("single", "kafka")])
def test_another_checkpoint_is_refused_before_it_disturbs_the_query_that_has_the_sink(
    mode: str, store: str, session: SparkSession, world: World
) -> None:
    stands = Fault("stands", ROWS, WAIT, batch=1, partition=0, after=10)
    job = world.job(f"intruder.{mode}.{store}", store, BATCHES[:2], stands, mode=mode)
    query = start(session, job)
    reached(query, job, stands.name)
    intruder = rerun(job, checkpoint="another", faults="no-faults")
    intruder.plan.write()

    assert "a query with a new checkpoint needs a new sink id" in (run(session, intruder) or "")
    assert intruder.plan.raised(WRITE) == []
    job.plan.go(stands.name)
    assert outcome(query) is None
    world.check(job)


def test_planning_that_fails_is_repeated(session: SparkSession, world: World) -> None:
    faults = Fault("plan", PLAN, EXIT, skip=1), Fault("recovered", RECOVERED, skip=2)
    job = world.job("planning", "kafka", BATCHES, *faults)

    outcomes = [run(session, job) for _ in range(3)]

    assert [each is None for each in outcomes] == [False, False, True]
    assert [job.plan.fired(each) for each in faults] == [1, 1]
    world.check(job)


def test_without_the_abort_of_losers_rows_would_be_held_back(session: SparkSession, world: World) -> None:
    """Proves that this file's checks detect an open transaction: it hides committed rows from readers."""
    loser = Fault("loser", PREPARED, batch=LAST, partition=0)
    job = world.job("losers", "dir", BATCHES, loser, Fault("no aborts", LOSERS, times=1000))

    assert run(session, job) is None
    with world.broker.cluster() as cluster:
        missing = difference(world.expected[job.topic], committed(cluster, job.topic))
        assert missing
        assert set(missing.values()) == {-1}
        assert len(open_transactions(cluster, job.sink)) == 1
        assert held_back(cluster, job.topic, PARTITIONS) != []
    world.broker.kill()
    try:
        assert {each["kind"] for each in findings(world.data_dir, job)} == {"open_two_phase"}
    finally:
        world.broker.start()

    job.plan.write()
    more = rows_of(LAST + 1, 3)
    add_input(Path(job.folder) / "input", LAST + 1, more)
    world.expected[job.topic] += more
    assert run(session, job) is None
    world.check(job)


@pytest.mark.parametrize("sink", ["ours", "spark"])
def test_spark_s_own_sink_writes_rows_twice_where_ours_does_not(sink: str, session: SparkSession, world: World) -> None:
    """A task fails after some of its rows have reached the broker, and is retried: only our sink aborts the first attempt."""
    fault = Fault("failing", ROWS, WAIT_RAISE, after=100)
    job = world.job(f"own.{sink}", "dir", [[f"{row}-{BIG}" for row in rows_of(0, 200)]], fault, tasks=1)
    plan = job.plan
    ours = Plan(plan.folder.with_name("none"))
    ours.write()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 20)
    try:
        rows = source(session, job).mapInArrow(lambda batches: failing(plan, batches), SCHEMA)
        query = start(session, job, rows, "kafka" if sink == "spark" else FORMAT, {"faults": str(ours.folder)})
        reached(query, job, fault.name)
        with world.broker.cluster() as cluster:
            while sink == "spark" and not any(written(cluster, job.topic)):
                time.sleep(POLL_S)
        plan.go(fault.name)

        assert outcome(query) is None
    finally:
        session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert plan.fired(fault) == 1
    with world.broker.cluster() as cluster:
        wrong = difference(world.expected[job.topic], committed(cluster, job.topic))
    assert (wrong == {}) == (sink == "ours")
    assert set(wrong.values()) <= {1}
