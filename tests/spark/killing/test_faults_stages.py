"""A stage that is run again, because what it reads is gone: its tasks count their attempts from 0 again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from faults import COMMITTED, PREPARED, WAIT, WRITE, Fault
from faults_query import Job, World, open_transactions, outcome, reached, rows_of, run, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BATCHES = [rows_of(0, 60)]


def lose_the_shuffle(session: SparkSession, world: World, mode: str, store: str, *more: Fault) -> tuple[Job, Any]:
    """A query, when a task has been told that its input is gone, and another one stands where it had prepared before."""
    first = Fault("first", PREPARED, WAIT, batch=0, partition=0)
    faults = first, Fault("zombie", PREPARED, WAIT, batch=0, partition=1), *more
    job = world.job(f"stage.{mode}.{store}", store, BATCHES, *faults, tasks=3, mode=mode)
    query = start(session, job)
    for name in ("first", "zombie"):
        reached(query, job, name)
    for path in Path(session.sparkContext.getConf().get("spark.local.dir", "")).rglob("shuffle_*.data"):
        path.unlink()
    job.plan.go("first")  # Its core is free for the third task, which finds nothing to read.
    return job, query


@pytest.mark.parametrize(("wins", "store"), [("the new attempt", "dir"), ("the old attempt", "kafka")])
def test_case_g_attempts_of_two_runs_of_a_stage_do_not_take_each_others_transaction(
    wins: str, store: str, session: SparkSession, world: World
) -> None:
    """Both have the same task and the number 0, and have written and prepared everything."""
    restarted, done = Fault("again", PREPARED, WAIT, batch=0, partition=1), Fault("done", COMMITTED, WAIT, batch=0)
    job, query = lose_the_shuffle(session, world, "2pc", store, restarted, done)
    reached(query, job, restarted.name)
    with world.broker.cluster() as cluster:
        assert {f"{job.sink}-1-0", f"{job.sink}-1-1"} < set(open_transactions(cluster, job.sink))
    order = ["zombie", "again"] if wins == "the old attempt" else ["again", "zombie"]
    job.plan.go(order[0])
    reached(query, job, done.name)
    job.plan.go(order[1])
    job.plan.go(done.name)

    assert outcome(query) is None
    attempts = [(each["partition"], each["attempt"]) for name in ("zombie", "again") for each in job.plan.passed(name)]
    assert set(attempts) == {(1, 0)}
    world.check(job)


def test_with_mode_single_a_stage_that_is_run_again_ends_the_query(session: SparkSession, world: World) -> None:
    """The rows of the attempt before are in the transaction; whether all, and in which order, nobody knows."""
    job, query = lose_the_shuffle(session, world, "single", "kafka")

    assert "the query must be restarted" in (outcome(query) or "")
    assert "DuplicateWriter" in job.plan.raised(WRITE)
    assert {each["attempt"] for each in job.plan.passed("zombie")} == {0}
    assert run(session, job) is None
    world.check(job)
