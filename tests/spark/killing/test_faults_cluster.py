"""Faults on a standalone cluster: killed executors, speculative attempts, competing drivers, and killed drivers.

One driver, a process with two workers of the cluster, runs all queries of this file until it is killed. The session of the
tests, which is another driver, then runs its queries again. The letters are those of the list of cases in `docs/spark.md`.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults import COMMIT, ENDS, PREPARED, RECOVERED, ROWS, TASK, WAIT, Fault
from faults_driver import Driver
from faults_query import HERE, QUERY_S, Job, World, open_transactions, rerun, rows_of, run
from spark_cluster import SparkCluster, executor_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORES = ("dir", "kafka")
BATCHES = [rows_of(batch, 40) for batch in range(3)]
LAST = len(BATCHES) - 1
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent / 'client'}",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("cluster")
    with SparkCluster(folder / "cluster") as cluster, Driver(cluster.master, folder / "driver", SETTINGS) as created:
        yield created.ready()


def test_case_a_every_row_is_written_once_when_an_executor_is_killed(driver: Driver, world: World) -> None:
    """An executor is killed when its task has prepared a transaction, and in the last batch while its task writes rows."""
    faults = Fault("prepared", PREPARED, WAIT, batch=0, partition=0), Fault("rows", ROWS, WAIT, LAST, 1, after=10)
    job = world.job("executor", "kafka", BATCHES, *faults)
    driver.submit(job)
    for fault in faults:
        os.kill(executor_of(driver.reached(job, fault.name, QUERY_S)), signal.SIGKILL)

    assert driver.outcome(job, QUERY_S) is None
    world.check(job)


def test_case_b_every_row_is_written_once_with_speculative_attempts(driver: Driver, world: World) -> None:
    """The slower attempt is killed while it writes, or has prepared its transaction like the faster attempt."""
    faults = (
        Fault("slow", ROWS, WAIT, batch=0, partition=0, attempt=0, after=10),
        # If processes start slowly, attempt 1 could end before attempt 0 has begun to write.
        Fault("overtaking", TASK, WAIT, batch=0, partition=0, attempt=1),
        *(
            Fault(f"both-{batch}-{attempt}", PREPARED, WAIT, batch=batch, partition=1, attempt=attempt)
            for batch in (1, LAST)
            for attempt in (0, 1)
        ),
    )
    job = world.job("speculation", "dir", BATCHES, *faults)
    driver.submit(job)
    driver.reached(job, "slow", QUERY_S)
    job.plan.go("overtaking")
    for batch in (1, LAST):
        both = [f"both-{batch}-{attempt}" for attempt in (0, 1)]
        for name in both:
            driver.reached(job, name, QUERY_S)
        for name in both:
            job.plan.go(name)

    assert driver.outcome(job, QUERY_S) is None
    world.check(job)


@pytest.mark.parametrize("store", STORES)
def test_case_i_a_driver_that_was_thought_dead_cannot_decide(
    store: str, driver: Driver, session: SparkSession, world: World
) -> None:
    """The driver waits before its decision while another driver does all its work, from a copy of its checkpoint."""
    frozen = Fault("frozen", COMMIT, WAIT, batch=1)
    zombie = world.job(f"zombie.{store}", store, BATCHES, frozen)
    driver.submit(zombie)
    driver.reached(zombie, frozen.name, QUERY_S)
    assert run(session, another_driver(zombie)) is None
    world.check(zombie)
    zombie.plan.go(frozen.name)

    assert driver.outcome(zombie, QUERY_S) is not None
    assert zombie.plan.raised(COMMIT) == ["Superseded"]
    world.check(zombie)


def test_case_i_tasks_of_a_driver_that_was_thought_dead_leave_nothing_open(
    driver: Driver, session: SparkSession, world: World
) -> None:
    """The tasks of the old driver begin after another driver has written all batches."""
    frozen = Fault("frozen", RECOVERED, WAIT, skip=1)
    zombie = world.job("late", "kafka", BATCHES, frozen)
    driver.submit(zombie)
    driver.reached(zombie, frozen.name, QUERY_S)
    assert run(session, another_driver(zombie)) is None
    zombie.plan.go(frozen.name)

    assert driver.outcome(zombie, QUERY_S) is not None
    assert zombie.plan.raised(COMMIT) == []
    world.check(zombie)


def another_driver(job: Job) -> Job:
    """Return a job for another driver that runs the same query without faults, from a copy of the checkpoint."""
    folder = Path(job.folder)
    shutil.copytree(folder / "checkpoint", folder / "copy")
    created = rerun(job, checkpoint="copy", faults="no-faults")
    created.plan.write()
    return created


@pytest.fixture(scope="module")
def dead(driver: Driver, world: World) -> dict[str, Job]:
    """Kill a driver with four queries, before and after the decision of their last batch, for each store; return the jobs."""
    places = {"before": Fault("before", COMMIT, WAIT, LAST), "after": Fault("after", ENDS, WAIT, LAST, after=1)}
    jobs = {
        f"{name} {store}": world.job(f"{name}.{store}", store, BATCHES, fault)
        for name, fault in places.items()
        for store in STORES
    }
    for job in jobs.values():
        driver.submit(job)
    for name, job in jobs.items():
        driver.reached(job, name.split()[0], QUERY_S)
    driver.kill()
    return jobs


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("when", "left"), [("before", 2), ("after", 1)])
def test_cases_c_and_d_every_row_is_written_once_when_the_driver_is_killed_around_its_decision(
    when: str, left: int, store: str, dead: dict[str, Job], session: SparkSession, world: World
) -> None:
    """kill -9 ends JVM and Python, with two open transactions, or one of two committed. The next run has fewer tasks."""
    job = dead[f"{when} {store}"]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) >= left  # Speculative attempts add transactions.

    assert run(session, rerun(job, tasks=1)) is None
    world.check(job)
