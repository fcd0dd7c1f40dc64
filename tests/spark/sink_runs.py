"""A query that writes the lines of files to the sink, one file a batch, and a check of its output."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from live_broker import committed, held_back, make_topic
from pyspark.sql import DataFrame, SparkSession
from sink_faults import Faults, FaultySource

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.pipeline.spark.partitioning import partitioned

PARTITIONS = 3
MARKERS_S_MAX = 30.0
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


def lines(batch: int, count: int) -> list[str]:
    return [f"{batch}-{number:05d}" for number in range(count)]


class Sink:
    """A sink id, a topic and a checkpoint, named after the test."""

    def __init__(self, spark: SparkSession, bootstrap: str, cluster: Cluster, folder: Path, name: str) -> None:
        self.name = re.sub("[^A-Za-z0-9._-]", "-", name)
        self.expected: list[str] = []
        self.together = False
        """Whether the rows of a partition of the topic are all in one task."""
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.options = {"kafka.bootstrap.servers": bootstrap, "topic": self.name, "sinkId": self.name}
        self.cluster = cluster
        (folder / "faults").mkdir()
        (folder / "input").mkdir()
        self.faults = Faults(str(folder / "faults"))
        self._spark = spark
        self._inputs = 0
        make_topic(cluster, self.name, PARTITIONS)
        spark.sparkContext.addPyFile(str(Path(__file__).with_name("sink_faults.py")))
        spark.dataSource.register(FaultySource)

    def add_input(self, rows: list[str]) -> None:
        """Add an input file, which is one more batch."""
        path = self.folder / "input" / f"{self._inputs:03d}.txt"
        partial = self.folder / path.name
        partial.write_text("".join(f"{row}\n" for row in rows))
        self._inputs += 1
        os.utime(partial, (self._inputs, self._inputs))  # Spark reads files of the same millisecond in any order.
        partial.rename(path)
        self.expected += rows

    def run(self, tasks: int = 2) -> None:
        """Run the query until all input is written."""
        self.start(tasks).awaitTermination()

    def fails(self, tasks: int = 2) -> str:
        """Run the query, which must fail; return its error message."""
        query = self.start(tasks)
        try:
            query.awaitTermination()
        except Exception as fault:
            return str(fault)
        raise AssertionError("the query did not fail")

    def start(self, tasks: int = 2) -> Any:
        read = self._spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        writer = self._spread(read.text(str(self.folder / "input")), tasks).writeStream.format("faulty")
        writer = writer.options(**self.options, faults=str(self.faults.folder))
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def write(self, rows: list[str], tasks: int = 2) -> None:
        """Write rows by a batch job."""
        self._write(rows, tasks)
        self.expected += rows

    def write_fails(self, rows: list[str], tasks: int = 2) -> str:
        try:
            self._write(rows, tasks)
        except Exception as fault:
            return str(fault)
        raise AssertionError("the job did not fail")

    def _write(self, rows: list[str], tasks: int) -> None:
        path = self.folder / "job.txt"
        path.write_text("".join(f"{row}\n" for row in rows))
        self.save(self._spread(self._spark.read.schema("value string").text(str(path)), tasks))

    def _spread(self, frame: DataFrame, tasks: int) -> DataFrame:
        with_key = frame.select("value", frame["value"].alias("key"))
        if self.together:
            return partitioned(with_key, self.options["topic"], self.options["kafka.bootstrap.servers"], tasks)
        return with_key.repartition(tasks)

    def save(self, frame: DataFrame) -> None:
        frame.write.format("faulty").options(**self.options, faults=str(self.faults.folder)).mode("append").save()

    def open_transactions(self) -> list[str]:
        actual = Admin(self.cluster).list_transactions(states=OPEN).listings
        own = [each for each in actual if each.transactional_id.startswith(f"{self.name}-")]
        return sorted(f"{each.transactional_id} {each.state}" for each in own)

    def settled(self) -> None:
        """Wait for the markers, which Kafka writes after its response to EndTxn."""
        deadline = time.monotonic() + MARKERS_S_MAX
        while self.open_transactions() or held_back(self.cluster, self.name, PARTITIONS):
            assert time.monotonic() < deadline, self.open_transactions()
            time.sleep(0.01)

    def check(self, rows: Iterable[str] | None = None) -> None:
        """Check that each row is committed once, and that no open transaction holds back readers."""
        actual = committed(self.cluster, self.name, PARTITIONS)
        expected = sorted(self.expected if rows is None else rows)
        assert actual == expected, f"{len(actual)} rows, {len(set(actual))} different ones, not {len(expected)}"
        still_open, held = self.open_transactions(), held_back(self.cluster, self.name, PARTITIONS)
        assert (still_open, held) == ([], []), f"open {still_open}, held back {held}"
