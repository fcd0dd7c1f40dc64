"""Spark runs a stage again after its input is lost; the attempt numbers of its tasks start at 0 again."""

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
    """Start a query and delete its shuffle files, while task 1 waits with a prepared transaction; return (job, query)."""
    first = Fault("first", PREPARED, WAIT, batch=0, partition=0)
    faults = first, Fault("zombie", PREPARED, WAIT, batch=0, partition=1), *more
    job = world.job(f"stage.{mode}.{store}", store, BATCHES, *faults, tasks=3, mode=mode)
    query = start(session, job)
    for name in ("first", "zombie"):
        reached(query, job, name)
    for path in Path(session.sparkContext.getConf().get("spark.local.dir", "")).rglob("shuffle_*.data"):
        path.unlink()
    job.plan.go("first")  # The free core starts the third task, whose input is gone.
    return job, query


@pytest.mark.parametrize(("wins", "store"), [("the new attempt", "dir"), ("the old attempt", "kafka")])
def test_case_g_attempts_of_two_runs_of_a_stage_do_not_take_each_others_transaction(
    wins: str, store: str, session: SparkSession, world: World
) -> None:
    """Both attempts have the same task and attempt number 0, and both have prepared a transaction with all rows."""
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
    """The transaction may contain an unknown part of the rows of the earlier attempt."""
    job, query = lose_the_shuffle(session, world, "single", "kafka")

    assert "the query must be restarted" in (outcome(query) or "")
    assert "DuplicateWriter" in job.plan.raised(WRITE)
    assert {each["attempt"] for each in job.plan.passed("zombie")} == {0}
    assert run(session, job) is None
    world.check(job)
