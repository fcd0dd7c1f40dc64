"""The audit on Spark gives the same tables and findings as in one process."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_cases import CASES, A, B, clean
from audit_harness import World, batch_with_headers
from audit_tables import everything
from audit_workload import GROUP, SETTINGS, tell

from stuntbroker.pipeline.audit import run
from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
from stuntbroker.pipeline.audit.folder import Folder, FolderError, read_folder
from stuntbroker.pipeline.audit.shares import PIECES
from stuntbroker.pipeline.audit.tables import TableWriter
from stuntbroker.pipeline.spark import audit as on_spark
from stuntbroker.pipeline.spark.segments import BUNCH_BYTES, NAME, SegmentSource, bunches_of
from stuntbroker.protocol.batches.records import seal
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.processes.process import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = tmp_path_factory.mktemp("audited") / "data"
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with serving("--data-dir", str(folder), *settings) as broker:
        tell(broker.address)
        assert broker.end()[0] == 0
    return read_folder(str(folder))


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = tmp_path_factory.mktemp("audited") / "kafka"
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with apache_kafka(folder, unstable_api_versions_enable="true", **settings) as address:
        host, _, port = address.rpartition(":")
        tell((host, int(port)))
    return read_folder(str(folder / "logs"))


PLANTS = {tuple(sorted(str(item[0]) for item in actual)): plant for plant, actual in CASES}
"""One planted fault for each combination of kinds of findings."""


def planted(folder: Path, plant: Any) -> Folder:
    world = World(folder)
    clean(world)
    world.commit_offset("g", A, 5, 7, 4)
    plant(world)
    return read_folder(str(folder))


@pytest.mark.parametrize("which", ["ours", "kafkas"])
def test_the_audit_on_spark_gives_the_same_result_for_the_folder_of_a_broker(
    spark: SparkSession, which: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(which)
    actual = on_spark.audit(spark, folder)

    assert everything(actual) == everything(run.audit(folder))
    assert actual.findings().to_pylist() == []


@pytest.mark.parametrize("plant", PLANTS.values(), ids=lambda plant: plant.__name__)
def test_the_audit_on_spark_gives_the_same_result_for_a_planted_fault(
    spark: SparkSession, plant: Callable[[World], None], tmp_path: Path
) -> None:
    folder = planted(tmp_path, plant)

    assert everything(on_spark.audit(spark, folder)) == everything(run.audit(folder))


@pytest.mark.parametrize("which", ["ours", "kafkas"])
def test_the_audit_on_spark_gives_the_same_comparison_of_input_and_output(
    spark: SparkSession, which: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(which)
    actual = run.audit(folder)
    right, wrong = ExactlyOnceCheck(GROUP, ("in",), ("out",)), ExactlyOnceCheck(GROUP, ("in",), ("other",))

    assert on_spark.compare(spark, folder, actual, right) == run.compare(folder, actual, right) == []
    theirs = run.compare(folder, actual, wrong)
    assert on_spark.compare(spark, folder, actual, wrong) == theirs and len(theirs) == 13


def test_an_undecodable_batch_is_reported_when_records_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path)
    broken = batch_with_headers([(b"k", b"v", [])] * 3)
    broken[57:61] = (2).to_bytes(4, "big")
    seal(broken)
    world.log[A].append(broken)
    world.commit_offset("g", A, 0)
    folder = read_folder(str(tmp_path))
    actual, chain = run.audit(folder), ExactlyOnceCheck("g", ("t",), ("t",))
    theirs = run.compare(folder, actual, chain)

    assert [each["kind"] for each in theirs] == ["undecodable"]
    assert on_spark.compare(spark, folder, actual, chain) == theirs


def test_a_marker_missing_from_an_empty_partition_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("one", 7, 0, A, B, data=False)
    world.decide("one", 7, 1, True, A, B, start_ms=start_ms)
    world.complete("one", 7, 1, True, start_ms)
    folder = read_folder(str(world.folder))
    actual = on_spark.audit(spark, folder)

    assert everything(actual) == everything(run.audit(folder))
    assert actual.findings()["kind"].to_pylist() == ["marker_missing"] * 2


def test_tables_written_with_and_without_spark_equal_those_of_the_source(
    spark: SparkSession, ours: Folder, tmp_path: Path
) -> None:
    """Both ways write the same tables, which Spark's data source also returns without files."""
    tables = {}
    for way in ("process", "spark"):
        writer = TableWriter(str(tmp_path / way), with_records=True)
        writer.make_folders()
        actual = run.audit(ours, writer) if way == "process" else on_spark.audit(spark, ours, writer)
        writer.finish(actual, actual.findings())
        tables[way] = {each.name: spark.read.parquet(str(each)) for each in sorted((tmp_path / way).iterdir())}

    assert tables["spark"].keys() == tables["process"].keys() >= {*PIECES, "transactions", "fencing"}
    for name, frame in tables["spark"].items():
        theirs = tables["process"][name]
        assert frame.schema == theirs.schema, name
        assert sorted(map(repr, frame.collect())) == sorted(map(repr, theirs.collect())), name
    spark.dataSource.register(SegmentSource)
    for name in ("batches", "records", "txn_state", "offsets"):
        rows = spark.read.format(NAME).option("table", name).load(ours.path).collect()
        assert sorted(map(repr, rows)) == sorted(map(repr, tables["process"][name].collect())), name
    only = spark.read.format(NAME).option("topics", "in, other").load(ours.path).select("topic").distinct().collect()
    assert sorted(row[0] for row in only) == ["in", "other"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "in"}, "the stuntbroker-segments source has no option 'topic': did you mean topics?"),
        ({"subscribe": "in"}, "no option 'subscribe': take it out"),
        ({"table": "batch"}, "there is no table 'batch': it must be one of batches, records, txn_state, offsets"),
        ({"topics": "in, othre"}, "has no records of a topic 'othre': did you mean other?"),
        ({"topics": "x"}, "has no records of a topic 'x': the folder has __consumer_offsets, __transaction_state, "),
        ({"path": ""}, "no data folder is given: load(FOLDER)"),
    ],
)
def test_an_unknown_option_table_or_topic_is_refused_with_a_suggestion(
    ours: Folder, options: dict[str, str], words: str
) -> None:
    with pytest.raises((ValueError, FolderError), match=re.escape(words)) as raised:
        source = SegmentSource({"path": ours.path} | options)
        source.reader(source.schema()).partitions()

    assert "\n" not in str(raised.value)


def test_a_task_is_a_segment_or_several_small_ones(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    for place in (A, B):
        log = world.log[place]
        for _ in range(2):
            log.roll()
            log.produce(1, 0, 0, txn=False)
            with log.path.open("ab") as file:
                file.truncate(BUNCH_BYTES + place[1])
    bunches = bunches_of(read_folder(str(tmp_path)))

    assert [len(bunch.segments) for bunch in bunches] == [1, 1, 1, 1, 4]
    assert [bunch.segments[0][2].partition for bunch in bunches[:4]] == [1, 1, 0, 0]
    shutil.rmtree(tmp_path)
