"""A data source that wraps ours and causes faults at chosen places, in the processes in which Spark runs the sink.

Driver, workers and test communicate through the files of a shared folder (option `faults`):

    plan.json        the faults, see Fault
    NAME.N           a process has passed the place of this fault for the N-th time
    NAME.reached     a process waits at this fault; contents: its process id and those of its ancestors
    NAME.go          the waiting process may continue
    METHOD-raised-KIND.N    the sink has raised this

Workers import this module, so it imports little. It uses the sink through Spark's interface only; to cause faults in the
middle of a commit, it replaces `recovery.end_all` and the writer of `single_sink`.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from stuntbroker.pipeline import recovery
from stuntbroker.pipeline.spark import StuntbrokerDataSource
from stuntbroker.pipeline.writer import TransactionalWriter

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

FORMAT: Final = "stuntbroker_faults"
WAIT_S: Final = 120.0
"""Maximum time that a process waits for NAME.go."""
POLL_S: Final = 0.01

PLAN: Final = "plan"
"""In the driver, before it takes the sink for a batch and recovers open transactions."""
RECOVERED: Final = "recovered"
"""In the driver, after it has taken the sink and recovered open transactions."""
RECOVERY_ENDS: Final = "recovery-ends"
"""In recovery, after it has ended `after` of the decided transactions."""
TASK: Final = "task"
"""At the start of write()."""
ROWS: Final = "rows"
"""In write(), after the task has taken `after` rows, or all rows if it has fewer."""
PREPARED: Final = "prepared"
"""At the end of write(), before it returns its message."""
COMMIT: Final = "commit"
ENDS: Final = "ends"
"""In commit() or abort(), after the batch is decided and `after` of its transactions have ended."""
NUMBERED: Final = "numbered"
"""In commit() of mode=single, after the batch number is written and before its transaction is committed."""
COMMITTED: Final = "committed"
ABORT: Final = "abort"
ABORTED: Final = "aborted"

LOSERS: Final = "losers"
"""Not a place: recovery finds no open transactions of losing attempts, so that it does not abort them."""

WRITE: Final = "write"
"""Not a place, but the name of the method under which its exceptions are recorded."""

TASK_PLACES: Final = (TASK, ROWS, PREPARED)

RAISE: Final = "raise"
EXIT: Final = "exit"
"""The Python process exits without notifying Spark."""
KILL: Final = "kill"
WAIT: Final = "wait"
WAIT_RAISE: Final = "wait and raise"


class Injected(Exception):
    """The exception of the actions RAISE and WAIT_RAISE."""


@dataclass(frozen=True)
class Fault:
    """A fault for each process that passes `place` with this batch, partition and attempt; None matches any value."""

    name: str
    place: str
    action: str = RAISE
    batch: int | None = None
    partition: int | None = None
    attempt: int | None = None
    after: int = 0
    skip: int = 0
    """Number of passes before the fault first occurs."""
    times: int = 1


class Plan:
    """The folder of the faults, which workers and tests share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, *faults: Fault) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _put(self.folder / "plan.json", json.dumps([asdict(each) for each in faults]))

    def faults(self) -> list[Fault]:
        return [Fault(**each) for each in json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))]

    def fired(self, fault: Fault) -> int:
        return max(0, min(len(self.passed(fault.name)) - fault.skip, fault.times))

    def due(self, place: str, batch: int | None = None) -> Fault | None:
        """Count this pass, across all processes, and return the fault that occurs in it, if any."""
        context = TaskContext.get() if place in TASK_PLACES else None
        partition = attempt = None
        if context is not None:
            partition, attempt = context.partitionId(), context.attemptNumber()
            batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        for each in self.faults():
            here = each.place == place and each.batch in (None, batch)
            if here and each.partition in (None, partition) and each.attempt in (None, attempt):
                passed = self._pass(each.name, {"batch": batch, "partition": partition, "attempt": attempt})
                if each.skip <= passed < each.skip + each.times:
                    return each
        return None

    def _pass(self, name: str, doing: dict[str, Any]) -> int:
        number = 0
        while True:
            try:
                with (self.folder / f"{name}.{number}").open("x", encoding="utf-8") as file:
                    file.write(json.dumps({**doing, "processes": ancestors(os.getpid())}))
                return number
            except FileExistsError:
                number += 1

    def perform(self, fault: Fault | None) -> None:
        if fault is None:
            return
        if fault.action == EXIT:
            os._exit(9)
        if fault.action == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.action in (WAIT, WAIT_RAISE):
            _put(self.folder / f"{fault.name}.reached", json.dumps(ancestors(os.getpid())))
            wait_for_file(self.folder / f"{fault.name}.go", WAIT_S)
        if fault.action in (RAISE, WAIT_RAISE):
            raise Injected(fault.name)

    def meet(self, place: str, batch: int | None = None) -> None:
        self.perform(self.due(place, batch))

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Record the exceptions that the sink raises in the block, as Spark may hide them from the test."""
        try:
            yield
        except Exception as fault:
            self._pass(f"{what}-raised-{type(fault).__name__}", {})
            raise

    def passed(self, name: str) -> list[dict[str, Any]]:
        """Return all passes of this fault, whether or not the fault occurred in them."""
        actual = sorted(each for each in self.folder.glob(f"{name}.*") if each.suffix[1:].isdigit())
        return [json.loads(each.read_text(encoding="utf-8")) for each in actual]

    def raised(self, what: str) -> list[str]:
        """Return the class names of the exceptions that the sink has raised in this method."""
        actual = self.folder.glob(f"{what}-raised-*.*")
        return sorted(each.stem.removeprefix(f"{what}-raised-") for each in actual)

    def stands(self, name: str) -> bool:
        """Whether a process has reached this waiting fault."""
        return (self.folder / f"{name}.reached").exists()

    def standing(self, name: str) -> list[int]:
        """Return the process id of the waiting process, and those of its ancestors."""
        actual: list[int] = json.loads((self.folder / f"{name}.reached").read_text(encoding="utf-8"))
        return actual

    def may_go(self, name: str) -> bool:
        return (self.folder / f"{name}.go").exists()

    def go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()


def _put(path: Path, text: str) -> None:
    """Write a file atomically."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)


def wait_for_file(path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} does not come")
        time.sleep(POLL_S)


def ancestors(pid: int) -> list[int]:
    """Return the ids of the process and its ancestors, without process 1."""
    actual = []
    while pid > 1:
        actual.append(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            break
    return actual


def failing(plan: Plan, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows of a task, with the ROWS fault after `after` of them."""
    fault = plan.due(ROWS)
    left = fault.after if fault else 0
    for batch in batches:
        if fault is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            plan.perform(fault)
            fault, batch = None, batch.slice(left)
        left -= batch.num_rows
        yield batch
    plan.perform(fault)


class FaultyDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = type(self.options)(self.options)
        plan = Plan(Path(options.pop("faults")))
        return FaultyWriter(plan, StuntbrokerDataSource(options).streamWriter(schema=schema, overwrite=overwrite))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = type(self.options)(self.options)
        plan = Plan(Path(options.pop("faults")))
        return FaultyJobWriter(plan, StuntbrokerDataSource(options).writer(schema=schema, overwrite=overwrite))


class Faulty:
    """Common base of the writers of streams and of batch jobs."""

    def __init__(self, plan: Plan, inner: Any) -> None:
        self._plan = plan
        self._inner = inner
        self._pickled: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the writer once, which takes the sink; Spark pickles it twice for the tasks."""
        if self._pickled is None:
            self._plan.meet(PLAN)
            with ending_some(self._plan, RECOVERY_ENDS, None):
                self._pickled = pickle.dumps(self._inner)
            self._plan.meet(RECOVERED)
        return _unpickled, (type(self), self._plan, self._pickled)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        self._plan.meet(TASK)
        with self._plan.noting(WRITE):
            message = self._inner.write(failing(self._plan, iterator))
        self._plan.meet(PREPARED)
        return message

    def _commit(self, batch: int | None, *given: Any) -> None:
        self._plan.meet(COMMIT, batch)
        with self._plan.noting(COMMIT), ending_some(self._plan, ENDS, batch), numbering(self._plan, batch):
            self._inner.commit(*given)
        self._plan.meet(COMMITTED, batch)

    def _abort(self, batch: int | None, *given: Any) -> None:
        self._plan.meet(ABORT, batch)
        with self._plan.noting(ABORT), ending_some(self._plan, ENDS, batch):
            self._inner.abort(*given)
        self._plan.meet(ABORTED, batch)


class FaultyWriter(Faulty, DataSourceStreamArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._commit(batchId, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(batchId, messages, batchId)


class FaultyJobWriter(Faulty, DataSourceArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(None, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(None, messages)


def _unpickled(kind: type[Faulty], plan: Plan, inner: bytes) -> Faulty:
    return kind(plan, pickle.loads(inner))


@contextmanager
def ending_some(plan: Plan, place: str, batch: int | None) -> Iterator[None]:
    """When decided transactions are ended in the block, cause the fault after `after` of them have ended."""
    real, running = recovery.end_all, recovery.running

    def end_all(cluster: Any, ends: Iterable[Any], **more: Any) -> Sequence[Any]:
        wanted = list(ends)
        fault = plan.due(place, batch) if wanted and wanted[0].commit else None
        if fault is None:
            return real(cluster, wanted, **more)
        first = real(cluster, wanted[: fault.after], **more) if fault.after else []
        plan.perform(fault)
        return [*first, *real(cluster, wanted[fault.after :], **more)]

    recovery.end_all = end_all
    if plan.due(LOSERS, batch):
        recovery.running = lambda admin, sink_id: []
    try:
        yield
    finally:
        recovery.end_all, recovery.running = real, running


@contextmanager
def numbering(plan: Plan, batch: int | None) -> Iterator[None]:
    """When mode=single commits in the block, cause the NUMBERED fault after all records are in the transaction."""
    from stuntbroker.pipeline.spark import single_sink

    class Numbering(TransactionalWriter):
        def commit(self) -> None:
            self.flush()
            plan.meet(NUMBERED, batch)
            super().commit()

    single_sink.TransactionalWriter = Numbering  # type: ignore[misc]
    try:
        yield
    finally:
        single_sink.TransactionalWriter = TransactionalWriter  # type: ignore[misc]
