"""Faults in mode=single, and in batch jobs of both modes: each row is written once, and no transaction stays open.

A driver process is killed with all its queries and jobs; the session of the tests, which is another driver, continues.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults import COMMIT, COMMITTED, ENDS, EXIT, NUMBERED, PREPARED, RAISE, RECOVERED, ROWS, WAIT, WRITE, Fault
from faults_driver import Driver
from faults_query import (
    PARTITIONS,
    QUERY_S,
    Job,
    World,
    committed,
    difference,
    open_transactions,
    outcome,
    reached,
    rerun,
    rows_of,
    run,
    save,
    start,
    written,
)
from live_broker import held_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = [rows_of(batch, 40) for batch in range(2)]
LAST = len(BATCHES) - 1


def test_a_failed_task_is_not_retried_but_its_batch_is_rewritten_after_a_restart(
    session: SparkSession, world: World
) -> None:
    """Rows of the task may be in the transaction, so the whole batch is aborted, and written again by a restarted query."""
    faults = (
        Fault("raises", ROWS, RAISE, batch=0, partition=0, after=10),
        Fault("exits", PREPARED, EXIT, batch=LAST, partition=0),
    )
    job = world.job("task", "kafka", BATCHES, *faults, mode="single")
    for done, fault in enumerate(faults):
        assert run(session, job) is not None
        assert job.plan.fired(fault) == 1
        assert len(job.plan.passed("write-raised-DuplicateWriter")) > done
        with world.broker.cluster() as cluster:
            before = [row for rows in BATCHES[:done] for row in rows]
            assert difference(before, committed(cluster, job.topic)) == {}
            assert (open_transactions(cluster, job.sink), held_back(cluster, job.topic, PARTITIONS)) == ([], [])
    with world.broker.cluster() as cluster:
        assert sum(written(cluster, job.topic)) >= len(world.expected[job.topic])  # All rows had reached the broker.

    assert run(session, job) is None
    world.check(job)


def test_a_broker_that_is_killed_in_the_middle_of_a_batch_is_waited_for(session: SparkSession, world: World) -> None:
    """The broker is killed while a task writes, before the commit, and just before EndTxn, when it is still down."""
    faults = (
        Fault("rows", ROWS, WAIT, batch=0, partition=0, after=10),
        Fault("commit", COMMIT, WAIT, batch=0),
        Fault("numbered", NUMBERED, WAIT, batch=LAST),
    )
    job = world.job("broker", "kafka", BATCHES, *faults, mode="single")
    query = start(session, job)
    for fault in faults:
        reached(query, job, fault.name)
        world.broker.kill()
        if fault.place == NUMBERED:
            job.plan.go(fault.name)
        world.broker.start()
        job.plan.go(fault.name)

    assert outcome(query) is None
    world.check(job)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver("local[2,4]", tmp_path_factory.mktemp("driver")) as created:
        yield created.ready()


def test_a_driver_that_was_thought_dead_can_neither_write_nor_commit(
    driver: Driver, session: SparkSession, world: World
) -> None:
    """The driver waits before its tasks or its commit while another driver does its work, from a copy of its checkpoint."""
    before = {
        WRITE: Fault("tasks", RECOVERED, WAIT, skip=1),  # Batch 1, as for the commit.
        COMMIT: Fault("commit", COMMIT, WAIT, batch=1),
    }
    zombies = {
        method: world.job(f"zombie.{method}", "kafka", BATCHES, frozen, mode="single")
        for method, frozen in before.items()
    }
    for zombie in zombies.values():
        driver.submit(zombie)
    for method, zombie in zombies.items():
        driver.reached(zombie, before[method].name, QUERY_S)
    for method, zombie in zombies.items():
        shutil.copytree(Path(zombie.folder) / zombie.checkpoint, Path(zombie.folder) / "copy")
        successor = rerun(zombie, checkpoint="copy", faults="no-faults")
        successor.plan.write()
        assert run(session, successor) is None
        world.check(zombie)
        zombie.plan.go(before[method].name)

    for method, zombie in zombies.items():
        assert driver.outcome(zombie, QUERY_S) is not None
        assert {WRITE: "ClientError", COMMIT: "ProducerFenced"}[method] in zombie.plan.raised(method)
        world.check(zombie)


KILLED: dict[str, tuple[Fault, int]] = {
    "single before": (Fault("before", COMMIT, WAIT), 1),
    "single numbered": (Fault("numbered", NUMBERED, WAIT), 1),
    "single after": (Fault("after", COMMITTED, WAIT), 0),
    "2pc before": (Fault("before", COMMIT, WAIT), 2),
    "2pc after": (Fault("after", ENDS, WAIT, after=1), 1),
}
"""Mode and moment -> the fault at which the driver waits to be killed, and the number of open transactions then."""
STREAMS = ("single before", "single numbered", "single after")
JOBS = ("single numbered", "single after", "2pc before", "2pc after")


@pytest.fixture(scope="module")
def dead(driver: Driver, world: World) -> dict[tuple[str, str], Job]:
    """Kill a driver with streams in their last batch and jobs with and without a version; return the jobs."""
    jobs = {}
    for kind, names in (("stream", STREAMS), ("job", JOBS), ("version", JOBS)):
        for name in names:
            mode, moment = name.split()
            fault = replace(KILLED[name][0], batch=LAST if kind == "stream" else None)
            options = {"writeId": "job", "writeVersion": "7"} if kind == "version" else {}
            job = world.job(
                f"{kind}.{mode}.{moment}",
                "kafka",
                BATCHES,
                fault,
                mode=mode,
                is_batch=kind != "stream",
                options=options,
            )
            # A commit that waits holds back the readers of its decision topic, so each sink has its own.
            jobs[kind, name] = rerun(job, decisions=f"kafka:decisions.{job.sink}")
    for job in jobs.values():
        driver.submit(job)
    for (_, name), job in jobs.items():
        driver.reached(job, KILLED[name][0].name, QUERY_S)
    driver.kill()
    return jobs


@pytest.mark.parametrize("name", STREAMS)
def test_every_row_is_written_once_when_the_driver_is_killed_before_or_after_its_commit(
    name: str, dead: dict[tuple[str, str], Job], session: SparkSession, world: World
) -> None:
    """The batch number is committed with the rows, so the next driver knows whether they are committed."""
    job = dead["stream", name]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) == KILLED[name][1]

    assert run(session, job) is None
    assert job.plan.raised(COMMIT) == []
    world.check(job)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_whose_driver_is_killed_is_there_whole_or_not_at_all(
    name: str, dead: dict[tuple[str, str], Job], session: SparkSession, world: World
) -> None:
    """After its decision, a job is committed when the sink is next used; running it again without a version duplicates it."""
    job = dead["job", name]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) == KILLED[name][1]
    if "after" in name:
        world.expected[job.topic] *= 2

    job.plan.write()
    assert save(session, job) is None
    world.check(job)


@pytest.mark.parametrize("name", JOBS)
def test_a_version_of_a_job_whose_driver_is_killed_is_there_once_when_it_is_repeated(
    name: str, dead: dict[tuple[str, str], Job], session: SparkSession, world: World
) -> None:
    job = dead["version", name]
    with world.broker.cluster() as cluster:
        assert len(open_transactions(cluster, job.sink)) == KILLED[name][1]

    job.plan.write()
    for _ in range(2):
        assert save(session, job) is None
    world.check(job)
