"""Common parts of both modes of the sink: the state passed to the tasks, their messages, and the Sink protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from stuntbroker.client.errors import BrokerError
from stuntbroker.client.prepared_state import NO_PRODUCER, PreparedTxnState
from stuntbroker.pipeline.decisions import BatchWentBack, Stored, Transaction, is_decided
from stuntbroker.pipeline.spark.rows import BadRows
from stuntbroker.pipeline.writer import Written
from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

Messages = Sequence[WriterCommitMessage | None]
"""One message per task; None for a failed task."""


class Taken(NamedTuple):
    """State that the driver passes to the tasks of a batch."""

    claim: int
    last: Stored | None
    """The last decision."""
    pair: PreparedTxnState = NO_PRODUCER
    """Producer id and epoch: in mode=single of the transaction that the tasks share, in mode=2pc of the gate."""


@dataclass
class TaskMessage(WriterCommitMessage):
    """Message from the successful attempt of a task to the driver."""

    claim: int
    pair: PreparedTxnState
    query_id: str
    transaction: Transaction | None
    """None if there were no rows, or the batch was already decided."""
    decided: bool
    """Whether the batch had already been decided by an earlier run of the query."""
    rows: int
    written: dict[tuple[str, int], Written]
    """Acknowledged records by topic and partition."""


class Sink(Protocol):
    """One mode of the sink. Each process creates its own object from the options."""

    def take(self) -> Taken:
        """Take the sink and end open transactions of earlier runs, on the driver, before the tasks."""

    def write(self, taken: Taken, query_id: str, batch_id: int, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task attempt, for a batch that is not decided yet."""

    def commit(self, messages: Sequence[TaskMessage], batch_id: int) -> None:
        """Commit a batch, on the driver, after all tasks have sent messages."""

    def abort(self, messages: Sequence[TaskMessage]) -> None:
        """Abort a batch, on the driver, after a task or the commit has failed. A decided batch stays decided."""


def task_messages_of(messages: Messages) -> list[TaskMessage]:
    """Return the messages of tasks that have succeeded."""
    return [message for message in messages if isinstance(message, TaskMessage)]


def write_once(sink: Sink, taken: Taken, query_id: str, batch_id: int, batches: Any) -> TaskMessage:
    """Write a task's rows unless the batch is already decided. Raises OtherQuery, BatchWentBack."""
    if not is_decided(taken.last, query_id, batch_id):
        return sink.write(taken, query_id, batch_id, batches)
    assert taken.last is not None
    if batch_id < taken.last.decision.batch_id:  # Spark repeats only the last batch.
        raise BatchWentBack(
            f"batch {batch_id} is older than batch {taken.last.decision.batch_id}, which sink {taken.last.decision.sink_id!r} "
            "has written: the checkpoint is outdated, as after a restore from a backup, and its batches may have other rows "
            "now; start with a new checkpoint and a new sinkId, at the offsets after the last batch that was written"
        )
    return skip(taken, query_id, batches)


def skip(taken: Taken, query_id: str, batches: Any) -> TaskMessage:
    """Consume a task's rows without writing them, because the batch is already decided."""
    for _ in batches:
        pass
    return TaskMessage(taken.claim, taken.pair, query_id, None, True, 0, {})


@contextmanager
def explaining_refused_sizes() -> Iterator[None]:
    """Raise BadRows if a broker refuses a batch as too large, which can only happen to a batch of a single row."""
    try:
        yield
    except BrokerError as fault:
        if fault.code not in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            raise
        raise BadRows(
            f"{fault}: a row is larger than max.message.bytes of its topic: raise that, set the option "
            "kafka.compression.type, or split the row"
        ) from fault


def commit_once(sink: Sink, messages: Messages, batch_id: int) -> None:
    """Commit a batch, unless it was decided earlier and so committed before its tasks began."""
    task_messages = task_messages_of(messages)
    if task_messages and not any(message.decided for message in task_messages):
        sink.commit(task_messages, batch_id)
