"""mode=2pc through Spark: after any fault, each row is written once, and no transaction of the sink stays open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_broker import make_topic
from pyspark.testing import assertDataFrameEqual
from sink_runs import Sink, lines

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

    from stuntbroker.client.commands.cluster import Cluster


@pytest.fixture
def sink(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Sink]:
    created = Sink(spark, str(broker.address), cluster, tmp_path, request.node.name)
    yield created
    created.check()


def test_every_batch_is_committed_once(sink: Sink) -> None:
    for number in range(3):
        sink.add_input(lines(number, 500))
    sink.run()


def test_a_stream_continues_after_a_batch_without_rows(sink: Sink) -> None:
    sink.add_input(lines(0, 5))
    sink.add_input([])
    sink.add_input(lines(2, 5))
    sink.run()


@pytest.mark.parametrize("fault", ["1-raise-0-0", "1-exit-1-0", "1-rows-1-0"])
def test_a_task_that_fails_is_tried_again(sink: Sink, fault: str) -> None:
    """The fault is in the last batch, so no later batch could end the transaction of the failed attempt."""
    for number in range(2):
        sink.add_input(lines(number, 200))
    sink.faults.set(fault)
    sink.run()


@pytest.mark.parametrize("attempts", [["0"], ["0", "1"]])
def test_tasks_that_fail_for_good_leave_nothing_open(sink: Sink, attempts: list[str]) -> None:
    """Spark calls abort() with the message of the other task, or without any message."""
    sink.add_input(lines(0, 200))
    for task in attempts:
        for attempt in range(4):
            sink.faults.set(f"raise-{task}-{attempt}")
    assert "Injected: raise-" in sink.fails()
    sink.check(rows=[])
    sink.faults.clear()
    sink.run()


@pytest.mark.parametrize("fault", ["commit-before", "commit-decided", "commit-after"])
def test_a_failed_commit_is_settled_by_the_abort(sink: Sink, fault: str) -> None:
    """Spark calls abort() after a failed commit(), even if the batch was decided."""
    sink.add_input(lines(0, 200))
    sink.faults.set(fault)
    sink.fails()
    assert not sink.faults.strikes(fault)
    sink.check(rows=[] if fault == "commit-before" else sink.expected)
    sink.add_input(lines(1, 200))
    sink.run()


@pytest.mark.parametrize("fault", ["commit-before", "commit-decided"])
def test_transactions_left_open_are_settled_by_a_run_with_fewer_tasks(sink: Sink, fault: str) -> None:
    """The first run ends without abort(), like a driver that died."""
    sink.add_input(lines(0, 200))
    sink.faults.set(fault)
    sink.faults.set("abort")
    sink.fails(tasks=4)
    assert len(sink.open_transactions()) == 4
    sink.faults.clear()
    sink.add_input(lines(1, 200))
    sink.run(tasks=1)


def test_another_checkpoint_needs_another_sink_id(sink: Sink) -> None:
    sink.add_input(lines(0, 20))
    sink.run()
    sink.checkpoint = sink.folder / "another"
    assert "a query with a new checkpoint needs a new sink id" in sink.fails()


def test_decisions_may_be_files(sink: Sink) -> None:
    sink.options["decisions"] = f"dir:{sink.folder / 'decisions'}"
    sink.add_input(lines(0, 20))
    sink.faults.set("commit-decided")
    sink.fails()
    sink.add_input(lines(1, 20))
    sink.run()
    assert len(list((sink.folder / "decisions").rglob("*.decided"))) == 2


def test_a_query_that_is_stopped_in_a_batch_leaves_nothing_open(sink: Sink) -> None:
    sink.add_input(lines(0, 200))
    sink.faults.set("wait-0-0")
    query = sink.start()
    while not sink.faults.strikes("waits"):
        query.awaitTermination(0.01)
    query.stop()
    sink.check(rows=[])
    sink.faults.clear()
    sink.run()


def test_sparks_own_source_reads_what_was_written(sink: Sink, spark: SparkSession) -> None:
    second = f"{sink.name}-2"
    make_topic(sink.cluster, second, 2)
    frame = spark.range(0, 50, 1, 2).selectExpr(
        "if(id % 3 > 0, concat('key ', id), null) key",
        "if(id % 5 > 0, concat('value ', id), null) value",
        "cast(id % 3 % 2 as int) partition",
        f"if(id % 2 > 0, '{second}', '{sink.name}') topic",
        "if(id % 4 > 0, array(named_struct('key', 'a', 'value', binary('1')), "
        "named_struct('key', 'b', 'value', cast(null as binary))), null) headers",
    )
    sink.options["kafka.compression.type"] = "zstd"
    del sink.options["topic"]
    sink.save(frame)
    sink.expected = [f"value {number}" if number % 5 else "" for number in range(0, 50, 2)]

    read = spark.read.format("kafka").option("kafka.bootstrap.servers", sink.options["kafka.bootstrap.servers"])
    read = read.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed")
    actual = read.option("subscribe", f"{sink.name},{second}").load()
    columns = ("cast(key as string)", "cast(value as string)", "partition", "topic", "headers")
    assertDataFrameEqual(actual.selectExpr(*columns), frame)


def test_a_missing_column_or_option_is_reported(sink: Sink, spark: SparkSession) -> None:
    frame = spark.range(1)
    with pytest.raises(Exception, match="BadRows: column 'value' is missing"):
        sink.save(frame)
    sink.options["sinkid"] = ""
    with pytest.raises(Exception, match="BadOption: option sinkId is missing"):
        sink.save(frame.selectExpr("cast(id as string) value"))


# --- df.write


def test_jobs_are_written_once_each_beside_a_stream(sink: Sink) -> None:
    sink.add_input(lines(0, 20))
    sink.run()
    for number in range(2):
        sink.write(lines(1 + number, 300))
    sink.add_input(lines(3, 20))
    sink.run()


@pytest.mark.parametrize("fault", ["raise-0-0", "exit-1-0"])
def test_a_task_of_a_job_that_fails_is_tried_again(sink: Sink, fault: str) -> None:
    sink.faults.set(fault)
    sink.write(lines(0, 300))
    assert sink.faults.has_struck(fault)


@pytest.mark.parametrize("fault", ["commit-before", "raise"])
def test_a_job_that_fails_leaves_nothing(sink: Sink, fault: str) -> None:
    for name in [fault] if fault == "commit-before" else [f"raise-0-{attempt}" for attempt in range(4)]:
        sink.faults.set(name)
    assert fault in sink.write_fails(lines(0, 300))
    sink.check(rows=[])
    sink.faults.clear()
    sink.write(lines(0, 300))


def test_a_job_that_fails_behind_its_decision_is_committed(sink: Sink) -> None:
    sink.faults.set("commit-decided")
    assert "commit-decided" in sink.write_fails(lines(0, 300))
    sink.expected += lines(0, 300)
