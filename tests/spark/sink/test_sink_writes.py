"""A batch write with a version that is killed at any step and repeated is written once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from faults import ABORT, COMMIT, COMMITTED, ENDS, EXIT, NUMBERED, PLAN, PREPARED, RECOVERED, Fault
from faults_query import Job, World, committed, rerun, rows_of, save
from live_broker import committed as values_of
from live_broker import make_topic

from stuntbroker.pipeline.spark.sink import stream_writer

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

    from stuntbroker.client.commands.cluster import Cluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "spark.md"
SINKS = [("2pc", "kafka"), ("2pc", "dir"), ("single", "kafka")]
ROWS = rows_of(0, 40)
ATTEMPTS_MAX = 4


def version(job: Job, write_id: str, number: int) -> Job:
    return rerun(job, options={"writeId": write_id, "writeVersion": str(number)})


@pytest.mark.parametrize(("mode", "store"), SINKS)
def test_a_version_that_was_committed_or_a_lower_one_is_not_written_again(
    mode: str, store: str, session: SparkSession, world: World
) -> None:
    """Each write id has its own version, which other writes to the sink do not change."""
    job = world.job(f"versions.{mode}.{store}", store, [ROWS], mode=mode, is_batch=True)
    counts = []
    for each in (
        version(job, "a", 1), version(job, "a", 1), version(job, "a", 0), version(job, "b", 0), job, version(job, "a", 1),
        version(job, "a", 3), version(job, "a", 2), version(job, "b", 0),
    ):  # fmt: skip
        assert save(session, each) is None
        with world.broker.cluster() as cluster:
            counts.append(len(committed(cluster, job.topic)) // len(ROWS))

    assert counts == [1, 1, 1, 2, 3, 3, 4, 4, 4]
    world.expected[job.topic] *= 4
    world.check(job)


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_a_version_without_rows_is_recorded(mode: str, session: SparkSession, world: World) -> None:
    job = world.job(f"empty.{mode}", "kafka", [[]], mode=mode, is_batch=True)
    full = rerun(world.job(f"full.{mode}", "kafka", [ROWS], mode=mode, is_batch=True), sink=job.sink)

    assert save(session, version(job, "a", 1)) is None
    assert save(session, version(full, "a", 1)) is None
    with world.broker.cluster() as cluster:
        assert committed(cluster, full.topic) == []


KILLED = {
    "2pc": (
        Fault("plan", PLAN, EXIT), Fault("recovered", RECOVERED, EXIT), Fault("commit", COMMIT, EXIT),
        Fault("prepared", PREPARED, EXIT, partition=0, times=ATTEMPTS_MAX),
        Fault("decided", ENDS, EXIT), Fault("half", ENDS, EXIT, after=1), Fault("committed", COMMITTED, EXIT),
    ),
    "single": (
        Fault("plan", PLAN, EXIT), Fault("recovered", RECOVERED, EXIT), Fault("commit", COMMIT, EXIT),
        Fault("numbered", NUMBERED, EXIT), Fault("committed", COMMITTED, EXIT),
    ),
}  # fmt: skip
"""Faults at which a process of the driver or of a task exits; abort() exits too."""


@pytest.mark.parametrize(
    ("mode", "store", "fault"),
    [
        pytest.param(mode, store, fault, id=f"{mode}-{store}-{fault.name}")
        for mode, store in SINKS
        for fault in KILLED[mode]
    ],
)
def test_a_version_whose_write_was_killed_at_any_step_is_written_once_when_repeated(
    mode: str, store: str, fault: Fault, session: SparkSession, world: World
) -> None:
    job = world.job(f"killed.{mode}.{store}.{fault.name}", store, [ROWS], mode=mode, is_batch=True)
    killed = rerun(version(job, "a", 1), faults=f"faults-{fault.name}")
    killed.plan.write(fault, Fault("abort", ABORT, EXIT))
    assert save(session, killed) is not None
    assert killed.plan.fired(fault) == fault.times
    restarted = version(job, "a", 1)
    for _ in range(2):
        assert save(session, restarted) is None

    world.check(job)


class Example:
    """The example of the documentation, with the test's address and checkpoint."""

    def __init__(self, bootstrap: str, checkpoint: Path) -> None:
        (text,) = [
            each
            for each in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
            if "writeVersion" in each
        ]
        assert "localhost:9092" in text and "/data/checkpoints/totals" in text
        self._text = text.replace("localhost:9092", bootstrap).replace("/data/checkpoints/totals", str(checkpoint))

    def run(self, **given: Any) -> None:
        exec(compile(self._text, str(DOCUMENT), "exec"), given)
        given["query"].processAllAvailable()
        given["query"].stop()


def test_the_documented_foreach_batch_writes_a_query_in_update_mode_exactly_once(
    session: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a query ends after a write and before Spark has recorded it, the next query runs that batch again."""
    make_topic(cluster, "totals")
    (tmp_path / "input").mkdir()
    example = Example(str(broker.address), tmp_path / "checkpoint")
    counts = session.readStream.schema("name string").text(str(tmp_path / "input")).groupBy("name").count()
    totals = counts.selectExpr("name AS key", "string(count) AS value")
    for number, text in enumerate(["a\na\n", "a\n"]):
        (tmp_path / "input" / f"{number}.txt").write_text(text)
        example.run(totals=totals)
        (tmp_path / "checkpoint" / "commits" / str(number)).unlink()
        (tmp_path / "checkpoint" / "commits" / f".{number}.crc").unlink()
        example.run(totals=totals)

    assert values_of(cluster, "totals") == ["2", "3"]


def test_complete_mode_is_refused_with_what_works(broker: LiveBroker) -> None:
    from pyspark.sql.types import StructType

    with pytest.raises(
        ValueError, match=r"outputMode\('append'\), or .* foreachBatch with df.write .* writeId and writeVersion"
    ):
        stream_writer({}, StructType(), overwrite=True)
