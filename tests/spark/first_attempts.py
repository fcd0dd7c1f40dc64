"""Run a sink without Spark, as the first attempt of its task."""

from __future__ import annotations

import pyarrow as pa

from stuntbroker.pipeline.decisions import is_decided
from stuntbroker.pipeline.spark import connections
from stuntbroker.pipeline.spark.writing import Sink

ROWS = [pa.record_batch({"value": pa.array(["row"])})]


class FirstAttempt:
    """A stand-in for TaskContext, in the first attempt of task 0."""

    @staticmethod
    def get() -> FirstAttempt:
        return FirstAttempt()

    def partitionId(self) -> int:
        return 0

    def attemptNumber(self) -> int:
        return 0

    def getLocalProperty(self, name: str) -> str:
        return "local[2]"


def another_process() -> None:
    """Forget all cached state, as a new process would."""
    for store in connections._stores.values():
        store.close()
    connections._stores.clear()
    connections._values.clear()


def run(sink: Sink, batch_id: int) -> None:
    """Run one batch as a driver and its task do, each like a process of its own."""
    another_process()
    taken = sink.take()
    if is_decided(taken.last, "query", batch_id):
        return
    message = sink.write(taken, "query", batch_id, ROWS)
    another_process()
    sink.commit([message], batch_id)
