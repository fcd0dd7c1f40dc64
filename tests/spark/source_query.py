"""A streaming query on the source that can be run several times, and producers of its input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_broker import batch

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.pipeline.writer import TransactionalWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Query:
    """A query that records the values of every batch; each run reads to the end, and continues from the same checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self.options = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
        self.options |= {name.replace("_", "."): str(value) for name, value in options.items()}
        self.form = "stuntbroker"
        self.batches: dict[int, list[str]] = {}
        """Batch id -> values, for the completed batches."""
        self.progress: list[Any] = []

    def load(self) -> DataFrame:
        return self._spark.readStream.format(self.form).options(**self.options).load()

    def run(self, work: Callable[[int], None] = lambda batch_id: None, **trigger: Any) -> None:
        def note(frame: DataFrame, batch_id: int) -> None:
            values = [bytes(row.value).decode() for row in frame.select("value").collect()]
            work(batch_id)
            self.batches[batch_id] = values

        writer = self.load().writeStream.foreachBatch(note).option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(**trigger or {"availableNow": True}).start()
        try:
            query.awaitTermination(60)
        finally:
            query.stop()
            self.progress = query.recentProgress

    @property
    def values(self) -> list[str]:
        return sorted(value for values in self.batches.values() for value in values)


def produce(cluster: Cluster, topic: str, partition: int, *values: str, commit: bool = True) -> None:
    writer = TransactionalWriter(cluster, f"{topic}-{partition}")
    writer.init(False)
    for value in values:
        writer.produce(topic, partition, batch(value))
    writer.flush()
    writer.commit() if commit else writer.abort()
