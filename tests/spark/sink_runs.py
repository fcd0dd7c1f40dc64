"""A query that reads files of lines, one a batch, and writes them to the sink; and what has to hold afterwards."""

from __future__ import annotations

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
    """One sink id, one topic, one checkpoint; names are made of the test's."""

    def __init__(self, spark: SparkSession, bootstrap: str, cluster: Cluster, folder: Path, name: str) -> None:
        self.name = re.sub("[^A-Za-z0-9._-]", "-", name)
        self.expected: list[str] = []
        self.together = False
        """Rows of a partition of the topic are in one task."""
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
        """One more batch."""
        path = self.folder / "input" / f"{self._inputs:03d}.txt"
        partial = self.folder / path.name
        partial.write_text("".join(f"{row}\n" for row in rows))
        partial.rename(path)
        self._inputs += 1
        self.expected += rows

    def run(self, tasks: int = 2) -> None:
        """Until all of the input is written."""
        self.start(tasks).awaitTermination()

    def fails(self, tasks: int = 2) -> str:
        """What the query ends with."""
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
        """A job."""
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
        """Waits for the markers, which Kafka writes behind its answer to EndTxn."""
        deadline = time.monotonic() + MARKERS_S_MAX
        while self.open_transactions() or held_back(self.cluster, self.name, PARTITIONS):
            assert time.monotonic() < deadline, self.open_transactions()
            time.sleep(0.01)

    def check(self, rows: Iterable[str] | None = None) -> None:
        """All rows once, to a reader of what is committed; no transaction is open, and nothing is held back."""
        actual = committed(self.cluster, self.name, PARTITIONS)
        expected = sorted(self.expected if rows is None else rows)
        assert actual == expected, f"{len(actual)} rows, {len(set(actual))} different ones, not {len(expected)}"
        still_open, held = self.open_transactions(), held_back(self.cluster, self.name, PARTITIONS)
        assert (still_open, held) == ([], []), f"open {still_open}, held back {held}"
