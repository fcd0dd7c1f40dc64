"""Exactly-once writers for `df.write` and `df.writeStream` with the data source `stuntbroker`.

Spark pickles a stream's writer once per batch, before the tasks start. The writer that commits or aborts the batch is a new
object in another process, which is never pickled. The sink is therefore taken when its writer is pickled, and the messages
of the tasks pass the result to the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from stuntbroker.pipeline.decisions import Superseded, is_written
from stuntbroker.pipeline.spark.checkpoint import query_of
from stuntbroker.pipeline.spark.connections import explaining_timeouts
from stuntbroker.pipeline.spark.rows import BadRows, check_schema
from stuntbroker.pipeline.spark.sink_options import SinkOptions, sink_options
from stuntbroker.pipeline.spark.writing import Messages, Sink, Taken, commit_once, skip, task_messages_of, write_once

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
JOB: Final = "jobs"
"""Query id in the decisions of batch writes, each of which counts as the next batch."""


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Return the writer of one micro-batch, or of its commit. Raises BadOption, BadRows."""
    if overwrite:
        raise BadRows(
            "a topic cannot be overwritten: use outputMode('append'), or for outputMode('update') foreachBatch with df.write "
            "and the options writeId and writeVersion"
        )
    chosen = sink_options(options, stream=True)
    check_schema(schema, chosen.topic)
    return StreamWriter(chosen, query_of(options))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer of one job. Raises BadOption, BadRows."""
    if overwrite:
        raise BadRows("a topic cannot be overwritten: use mode('append')")
    chosen = sink_options(options, stream=False)
    check_schema(schema, chosen.topic)
    return JobWriter(chosen)


def sink_of(options: SinkOptions, query_id: str | None = None) -> Sink:
    """Return the sink of the mode in `options`; `query_id` is the query that takes the sink, if known."""
    if options.two_phase:
        from stuntbroker.pipeline.spark.two_phase_sink import TwoPhaseSink

        return TwoPhaseSink(options, query_id)
    from stuntbroker.pipeline.spark.single_sink import SingleSink

    return SingleSink(options, query_id)


def abort(options: SinkOptions, messages: Messages) -> None:
    """Abort a batch after a task or the commit has failed."""
    try:
        sink_of(options).abort(task_messages_of(messages))
    except Superseded as fault:
        # Do not raise: Spark would hide the original failure. The driver that took the sink ends this one's transactions.
        log.warning("nothing is left to abort: %s", fault)


def take(options: SinkOptions, query_id: str | None = None) -> Taken:
    """Take the sink, before the tasks start."""
    with explaining_timeouts("kafka.delivery.timeout.ms"):
        return sink_of(options, query_id).take()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a stream on the driver; unpickled in the tasks it becomes a StreamTask."""

    def __init__(self, options: SinkOptions, query_id: str | None) -> None:
        self._options = options
        self._query_id = query_id
        self._taken: Taken | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._taken is None:  # Spark pickles the writer twice.
            self._taken = take(self._options, self._query_id)
        return StreamTask, (self._options, self._taken)

    def write(self, iterator: Any) -> WriterCommitMessage:
        """Raise TypeError: the tasks use StreamTask."""
        raise TypeError("tasks use StreamTask")

    def commit(self, messages: Messages, batchId: int) -> None:
        """Commit a batch, on the driver."""
        commit_once(sink_of(self._options), messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Abort a batch, on the driver."""
        abort(self._options, messages)


class StreamTask(DataSourceStreamArrowWriter):
    """Writer of a stream in the tasks."""

    def __init__(self, options: SinkOptions, taken: Taken) -> None:
        self._options = options
        self._taken = taken

    def write(self, iterator: Any) -> WriterCommitMessage:
        """Write one task's rows of a batch."""
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id is not None and batch_id is not None
        return write_once(sink_of(self._options), self._taken, query_id, int(batch_id), iterator)


class JobWriter(DataSourceArrowWriter):
    """Writer of a batch job, on the driver and in the tasks: Spark pickles one object for the tasks and for the commit."""

    def __init__(self, options: SinkOptions, taken: Taken | None = None) -> None:
        self._options = options
        self._taken = taken

    def __reduce__(self) -> tuple[Any, ...]:
        return JobWriter, (self._options, self._take())

    def _take(self) -> Taken:
        if self._taken is None:
            self._taken = take(self._options)
        return self._taken

    def _batch_id(self) -> int:
        last = self._take().last
        return 0 if last is None else last.decision.batch_id + 1

    def write(self, iterator: Any) -> WriterCommitMessage:
        """Write one task's rows of a job, unless the job was committed before."""
        taken = self._take()
        if is_written(taken.last, self._options.write):
            return skip(taken, JOB, iterator)
        return write_once(sink_of(self._options), taken, JOB, self._batch_id(), iterator)

    def commit(self, messages: Messages) -> None:
        """Commit the job, on the driver."""
        commit_once(sink_of(self._options), messages, self._batch_id())

    def abort(self, messages: Messages) -> None:
        """Abort the job, on the driver."""
        abort(self._options, messages)
