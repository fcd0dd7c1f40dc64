"""The sink with faults, as the data source `faulty`, which Spark's workers get by `addPyFile`.

The option `faults` is a folder. Each file in it is a fault, named by the place where it occurs. The fault occurs as long as
the file exists; a fault that occurs once removes its file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from stuntbroker.pipeline.spark import StuntbrokerDataSource

WAIT_S = 600.0
Messages = Sequence[WriterCommitMessage | None]


class Injected(Exception):
    pass


class Faults:
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def set(self, name: str) -> None:
        (self.folder / name).touch()

    def clear(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()

    def strikes(self, name: str, once: bool = False) -> bool:
        path = self.folder / name
        if not path.exists():
            return False
        if once:
            path.unlink()
        (self.folder / f"{name}.struck").touch()
        return True

    def has_struck(self, name: str) -> bool:
        return (self.folder / f"{name}.struck").exists()

    def may_strike(self, name: str, once: bool = False) -> None:
        if self.strikes(name, once):
            raise Injected(name)


class FaultySource(StuntbrokerDataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def _faults(self) -> Faults:
        return Faults(self.options["faults"])

    def _inner(self) -> StuntbrokerDataSource:
        options: Mapping[str, str] = {name: value for name, value in self.options.items() if name.lower() != "faults"}
        return StuntbrokerDataSource(dict(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return FaultyStreamWriter(self._inner().streamWriter(schema, overwrite), self._faults())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return FaultyWriter(self._inner().writer(schema, overwrite), self._faults())


class Ends:
    """Common base of the writers of streams and batch jobs."""

    inner: Any
    faults: Faults

    def _write(self, iterator: Any) -> WriterCommitMessage:
        """Write with the faults `[BATCH-]KIND-TASK-ATTEMPT`, which occur after the last row, or for `rows` after each batch."""
        context = TaskContext.get()
        assert context is not None
        where = f"{context.partitionId()}-{context.attemptNumber()}"
        prefixes = "", f"{context.getLocalProperty('streaming.sql.batchId')}-"

        def rows() -> Any:
            for batch in iterator:
                yield batch
                for prefix in prefixes:
                    self.faults.may_strike(f"{prefix}rows-{where}")

        message: WriterCommitMessage = self.inner.write(rows())
        for prefix in prefixes:
            self.faults.may_strike(f"{prefix}raise-{where}")
            if self.faults.strikes(f"{prefix}exit-{where}"):
                os._exit(9)
            if self.faults.strikes(f"{prefix}wait-{where}"):
                self.faults.set("waits")
                time.sleep(WAIT_S)
        return message

    def _commit(self, *arguments: Any) -> None:
        self.faults.may_strike("commit-before", once=True)
        if self.faults.strikes("commit-decided", once=True):
            self._die_when_decided()
        self.inner.commit(*arguments)
        self.faults.may_strike("commit-after", once=True)

    def _die_when_decided(self) -> None:
        from stuntbroker.pipeline.spark import two_phase_sink

        right = two_phase_sink.settle

        def settle(*_: Any) -> Any:
            two_phase_sink.settle = right  # type: ignore[assignment]
            raise Injected("commit-decided")

        two_phase_sink.settle = settle  # type: ignore[assignment]

    def _abort(self, *arguments: Any) -> None:
        self.faults.may_strike("abort")
        self.inner.abort(*arguments)


class FaultyStreamWriter(DataSourceStreamArrowWriter, Ends):
    def __init__(self, inner: Any, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    def write(self, iterator: Any) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        self._commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        self._abort(messages, batchId)


class FaultyWriter(DataSourceArrowWriter, Ends):
    def __init__(self, inner: Any, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    def write(self, iterator: Any) -> WriterCommitMessage:
        return self._write(iterator)

    def commit(self, messages: Messages) -> None:
        self._commit(messages)

    def abort(self, messages: Messages) -> None:
        self._abort(messages)
