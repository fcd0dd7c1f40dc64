"""Inject faults into the query of the demo: the data source `stuntbroker` with faults in its sink.

Each fault happens once, in its batch. A file in the folder `faults` records the fault, which may kill the process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from stuntbroker.pipeline.spark import StuntbrokerDataSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BATCH_ID: Final = "streaming.sql.batchId"
FAULTS: Final = {
    1: "a task raises after it has written everything",
    2: "a worker process dies in the middle of its rows",
    3: "the driver is killed (kill -9) when all tasks are prepared, before the decision",
    4: "the broker is killed (kill -9) while the transactions are open",
    5: "the driver raises after the decision: Spark calls abort() on a committed batch",
    6: "the driver is killed (kill -9) after the decision, before Spark knows that the batch is done",
    7: "a task raises after it has written everything",
}
"""Batch id -> description of the fault that strikes in that batch."""


class Inner(Protocol):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any: ...
    def commit(self, messages: list[Any], batchId: int) -> None: ...
    def abort(self, messages: list[Any], batchId: int) -> None: ...


class SabotagedDataSource(StuntbrokerDataSource):
    """The data source `stuntbroker` with the additional option `faults`, a folder."""

    @classmethod
    def name(cls) -> str:
        return "sabotaged"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        folder = Path(self.options.pop("faults"))
        return Saboteur(super().streamWriter(schema, overwrite), folder)


class Saboteur(DataSourceStreamArrowWriter):
    def __init__(self, inner: Inner, folder: Path) -> None:
        self._inner = inner
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        context = TaskContext.get()
        assert context is not None
        batch_id, first_task = int(context.getLocalProperty(BATCH_ID) or -1), context.partitionId() == 0
        if first_task and batch_id == 2 and self._strikes(2):
            iterator = until_death(iterator)
        message = self._inner.write(iterator)
        if first_task and batch_id == 1 and self._strikes(1):
            raise RuntimeError("sabotage: a task")
        if first_task and batch_id == 7 and (self._strikes(7) or self._strikes(7, "again")):
            raise RuntimeError("sabotage: a task")
        return message

    def commit(self, messages: list[Any], batchId: int) -> None:
        if batchId == 3 and self._strikes(3):
            self._kill("driver")
        if batchId == 4 and self._strikes(4):
            self._kill("broker")
        self._inner.commit(messages, batchId)
        if batchId == 5 and self._strikes(5):
            raise RuntimeError("sabotage: the driver")
        if batchId == 6 and self._strikes(6):
            self._kill("driver")

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._inner.abort(messages, batchId)

    def _strikes(self, batch_id: int, which: str = "struck") -> bool:
        """Whether the fault strikes now, for the first time; creates the file that records it."""
        try:
            (self._folder / f"{batch_id}.{which}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _kill(self, whom: str) -> None:
        """Kill the processes whose ids are in `WHOM.pid`; for the driver, this never returns."""
        for pid in (self._folder / f"{whom}.pid").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        if whom == "driver":
            time.sleep(60)  # This process belongs to the driver and ends with it.


def until_death(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield half of the first batch of rows, then end the process."""
    for batch in rows:
        yield batch.slice(0, len(batch) // 2)
        os._exit(9)
