"""What fails around a driver: executors, other attempts of its tasks, other drivers, the driver itself. On a real cluster.

One driver, a process with two workers of a standalone cluster, runs all queries of this file until it is killed; what is
run again then is run by the session of the tests, which is another driver. The letters are those of the list of cases in
`docs/spark.md`.
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
    """With a transaction that is prepared, and in the last batch with one that is being written."""
    faults = Fault("prepared", PREPARED, WAIT, batch=0, partition=0), Fault("rows", ROWS, WAIT, LAST, 1, after=10)
    job = world.job("executor", "kafka", BATCHES, *faults)
    driver.submit(job)
    for fault in faults:
        os.kill(executor_of(driver.reached(job, fault.name, QUERY_S)), signal.SIGKILL)

    assert driver.outcome(job, QUERY_S) is None
    world.check(job)


def test_case_b_every_row_is_written_once_with_speculative_attempts(driver: Driver, world: World) -> None:
    """The loser is killed while it writes, or has prepared everything too; in the last batch both have."""
    faults = (
        Fault("slow", ROWS, WAIT, batch=0, partition=0, attempt=0, after=10),
        # Where processes start slowly, it would end before the other one has begun.
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
    """It stands before its decision while another one does all of its work, from a copy of its checkpoint."""
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
    """They begin when another driver has already done everything."""
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
    """The same query, by somebody who believes that the driver is dead, and has no faults."""
    folder = Path(job.folder)
    shutil.copytree(folder / "checkpoint", folder / "copy")
    created = rerun(job, checkpoint="copy", faults="no-faults")
    created.plan.write()
    return created


@pytest.fixture(scope="module")
def dead(driver: Driver, world: World) -> dict[str, Job]:
    """Four queries of a driver that is killed: before, or after the decision of the last batch; by store."""
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
    """JVM and Python, by kill -9: with two transactions open, or with one of two committed. Fewer tasks go on."""
    job = dead[f"{when} {store}"]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) >= left  # More when there was speculation.

    assert run(session, rerun(job, tasks=1)) is None
    world.check(job)
