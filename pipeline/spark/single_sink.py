"""Sink with mode=single: one transaction per batch, to which all tasks write. Works with any Kafka from 2.5 on.

    driver, before the tasks    InitProducerId ends an open transaction of an earlier run; then the driver takes the sink, and
                                ends open transactions of mode=2pc
    task                        writes with the driver's producer id and epoch, to partitions that no other task writes to
    driver, after the tasks     writes the batch id in the same transaction, and commits it

A read_committed consumer sees all of a batch or nothing. Sequence numbers are counted per partition, so each partition must
be written by one task with one attempt: it is unknown which rows of a failed attempt are in the log. After any failure the
whole batch is aborted and the query ends; after a restart the batch is written again.

The last committed batch is a record in the decision topic under the key that mode=2pc uses, so that a query may change its
mode between two batches. InitProducerId comes first, so that the record cannot change after it has been read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import now_ms
from stuntbroker.client.commands.transactions import init_producer
from stuntbroker.client.errors import BrokerError, ClientError, ProducerFenced, ProducerUnknown
from stuntbroker.client.prepared_state import NO_PRODUCER, PreparedTxnState
from stuntbroker.pipeline.decision_topic import make_decision_topic, stored
from stuntbroker.pipeline.decisions import Decision, NotDone, Transaction, check_query, to_json, writes_after
from stuntbroker.pipeline.recovery import settle, single_id
from stuntbroker.pipeline.spark.claims import is_first, remember, remembered
from stuntbroker.pipeline.spark.connections import batch_limits, connected, partition_counts, store_of, values_of
from stuntbroker.pipeline.spark.rows import pieces
from stuntbroker.pipeline.spark.sink_options import SinkOptions
from stuntbroker.pipeline.spark.two_phase_sink import NoTwoPhaseCommit, check_two_phase_commit
from stuntbroker.pipeline.spark.writing import Taken, TaskMessage, explaining_refused_sizes
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

ONE_STAGE_ATTEMPT: Final = "spark.stage.maxConsecutiveAttempts"
PARTITIONED: Final = (
    "with mode=single all rows of a partition must be in one task, "
    "see stuntbroker.pipeline.spark.partitioning.partitioned"
)


class DuplicateWriter(Exception):
    """Two tasks, or two attempts of a task, would write to the same partition in one transaction."""


class SingleSink:
    """The sink of `mode=single`: one transaction per batch, to which all tasks write."""

    def __init__(self, options: SinkOptions, query_id: str | None = None) -> None:
        self._options = options
        self._query_id = query_id
        self._id = single_id(options.sink_id)
        self._topic = options.decisions.name

    def take(self) -> Taken:
        """Take the sink. Raises NotDone, ClientError."""
        options = self._options
        with connected(options) as cluster:
            if options.topic is not None:
                partition_counts(cluster)(options.topic)
            make_decision_topic(cluster, self._topic)
            store = store_of(cluster, options)
            if self._query_id is not None:
                check_query(store.peek(), self._query_id)  # The sink's own query may continue.
            pair = self._new_pair(cluster)
            remember(options, str(pair))
            # Fence a driver with mode=2pc that is still alive, and end its transactions as decided.
            claim = store.take()
            with suppress(NoTwoPhaseCommit):
                check_two_phase_commit(cluster, options.sink_id)
                settle(cluster, store, options.sink_id)
            last = store.last()
            if last is not None and not last.done:
                raise NotDone(
                    f"batch {last.decision.batch_id} of sink {options.sink_id!r} was decided with mode=2pc and is not all "
                    "committed, and these brokers cannot commit it"
                )
            return Taken(claim, last, pair)

    def _new_pair(self, cluster: Cluster) -> PreparedTxnState:
        """Return the producer id and a new epoch, which fences other drivers. Raises ClientError."""
        timeout_ms = self._options.transaction_timeout_ms
        try:
            return init_producer(cluster, self._id, timeout_ms).pair
        except BrokerError as fault:
            if fault.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise ClientError(
                f"kafka.transaction.timeout.ms={timeout_ms} is more than transaction.max.timeout.ms of the brokers, "
                "which is 900000 by default"
            ) from fault

    def _state(self, cluster: Cluster) -> dict[str, Any]:
        text = values_of(cluster, self._options).get(self._options.sink_id.encode(), b'{"owner": 0}')
        state: dict[str, Any] = json.loads(text)
        return state

    def write(self, taken: Taken, query_id: str, batch_id: int, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        """Write a task's rows in the driver's transaction. Raises BadRows, DuplicateWriter, ClientError."""
        options, context = self._options, TaskContext.get()
        assert context is not None
        task = context.partitionId()
        _check_attempt(context, options, taken.pair)
        with (
            connected(options) as cluster,
            explaining_refused_sizes(),
            TransactionalWriter(cluster, self._id) as writer,
        ):
            writer.join(taken.pair)
            try:
                for piece in pieces(
                    batches,
                    options.topic,
                    partition_counts(cluster),
                    options.compression,
                    task,
                    False,
                    batch_limits(cluster),
                ):
                    writer.produce(piece.topic, piece.partition, piece.data)
                writer.flush()
            except BrokerError as fault:
                if fault.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    raise DuplicateWriter(
                        f"{fault}: another task writes to this partition too: {PARTITIONED}"
                    ) from fault
                if not isinstance(fault, ProducerFenced | ProducerUnknown):
                    raise
                raise ClientError(
                    f"{fault}: another driver has taken the sink, or the batch took longer than "
                    f"kafka.transaction.timeout.ms={options.transaction_timeout_ms}"
                ) from fault
            written = writer.written
        rows = sum(piece.records for piece in written.values())
        transaction = Transaction(self._id, *taken.pair) if rows else None
        return TaskMessage(0, taken.pair, query_id, transaction, False, rows, written)

    def commit(self, messages: Sequence[TaskMessage], batch_id: int) -> None:
        """Commit the batch. Raises DuplicateWriter, ClientError. After TimedOut the outcome is unknown until the next run."""
        options = self._options
        if not any(message.transaction for message in messages) and options.write is None:
            return
        _check_partitions(messages)
        with connected(options) as cluster, TransactionalWriter(cluster, self._id) as writer:
            writer.join(messages[0].pair)
            state = self._state(cluster)
            writes = writes_after(stored(state), options.write)
            decision = to_json(Decision(options.sink_id, messages[0].query_id, batch_id, (), writes))
            text = json.dumps({"owner": state["owner"], "done": True, **decision}).encode()
            writer.produce(self._topic, 0, build_batch([(options.sink_id.encode(), text)], now_ms()))
            writer.commit()

    def abort(self, messages: Sequence[TaskMessage]) -> None:
        """Abort the open transaction and fence late tasks, unless it is committed or another driver has taken the sink."""
        options = self._options
        known = str(messages[0].pair) if messages else remembered(options)
        with connected(options) as cluster, suppress(ProducerFenced, ProducerUnknown):
            owner = NO_PRODUCER if known is None else PreparedTxnState.parse(known)
            init_producer(cluster, self._id, options.transaction_timeout_ms, owner=owner)


def _check_attempt(context: TaskContext, options: SinkOptions, pair: PreparedTxnState) -> None:
    """Raise DuplicateWriter unless this is the task's only attempt. Attempt numbers restart at 0 when Spark reruns a stage."""
    is_local = (context.getLocalProperty("spark.master") or "").startswith("local")
    if context.attemptNumber() or (is_local and not is_first(options, context.partitionId(), pair)):
        raise DuplicateWriter(
            f"task {context.partitionId()} has failed, and its rows may be in the transaction already: with mode=single the "
            "query must be restarted (see the first failure of the task; spark.task.maxFailures=1 avoids useless retries)"
        )
    if not is_local and context.getLocalProperty(ONE_STAGE_ATTEMPT) != "1":
        raise DuplicateWriter(
            f"with mode=single Spark must not run a stage twice, which tasks cannot see: start Spark with {ONE_STAGE_ATTEMPT}=1"
        )


def _check_partitions(messages: Sequence[TaskMessage]) -> None:
    """Raise DuplicateWriter if two tasks wrote to the same partition."""
    owners: dict[tuple[str, int], int] = {}
    for number, message in enumerate(messages):
        for where in message.written:
            if where in owners:
                raise DuplicateWriter(f"two tasks wrote to {where[0]}-{where[1]}: {PARTITIONED}")
            owners[where] = number
