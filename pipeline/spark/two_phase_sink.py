"""Sink with mode=2pc: one two-phase transaction per task attempt, and one decision for all successful attempts (KIP-939).

    driver, before the tasks    takes the sink, and ends the open transactions of earlier runs as decided
    task                        writes its rows in a transaction, leaves it open, and names it in its message to the driver
    driver, after the tasks     decides the named transactions, commits them, and aborts all others of the sink

Each task attempt uses a transactional id of its own: the first free id, counting from the attempt number. InitProducerId with
KeepPreparedTxn tells whether an id is free. KeepPreparedTxn is safe: it leaves an open transaction of another attempt or
driver untouched, even if that transaction is being decided at the same moment.

Spark does not wait for attempts that it has abandoned. A gate keeps them from beginning a transaction after the driver has
ended all others: the producer id and epoch of the transactional id `SINK-gate`, which never has a transaction. The driver
bumps the gate's epoch before it lists open transactions, and an attempt checks the gate after InitProducerId. Either the
driver's listing contains the attempt, or the attempt finds the gate closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.transactions import init_producer
from stuntbroker.client.errors import BrokerError, ClientError, ProducerFenced, TimedOut, UnsupportedVersion
from stuntbroker.client.prepared_state import NO_PRODUCER, PreparedTxnState
from stuntbroker.pipeline.decisions import Decision, Decisions, Transaction, check_query, writes_after
from stuntbroker.pipeline.recovery import settle, single_id, transactional_id
from stuntbroker.pipeline.spark.claims import remember, remembered
from stuntbroker.pipeline.spark.connections import batch_limits, connected, partition_counts, store_of
from stuntbroker.pipeline.spark.rows import pieces
from stuntbroker.pipeline.spark.sink_options import SinkOptions
from stuntbroker.pipeline.spark.writing import Taken, TaskMessage, explaining_refused_sizes
from stuntbroker.pipeline.writer import TransactionalWriter, Written
from stuntbroker.protocol.api_keys import INIT_PRODUCER_ID
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.versions import TWO_PHASE_FROM

if TYPE_CHECKING:
    import pyarrow as pa

TIMEOUT_MS: Final = 60_000
"""Transaction time-out of the gate's transactional id, which never has a transaction."""
SLOTS_MAX: Final = 1_000
"""Maximum number of transactional ids that an attempt tries."""


class NoTwoPhaseCommit(Exception):
    """The brokers do not support two-phase commit, which mode=2pc needs."""


class NotAllowed(Exception):
    """The user may not use two-phase commit with the transactional ids of the sink."""


class AttemptTooLate(Exception):
    """The batch of this attempt has ended, or another driver has taken the sink."""


class DecisionUnknown(Exception):
    """The decision may or may not have been stored."""


class CommittedLater(Exception):
    """The batch is decided but not completely committed yet; the next use of the sink commits it."""


class TwoPhaseSink:
    """The sink of `mode=2pc`: one two-phase transaction per task attempt, left open until the driver's decision ends it."""

    def __init__(self, options: SinkOptions, query_id: str | None = None) -> None:
        self._options = options
        self._query_id = query_id

    def take(self) -> Taken:
        """Take the sink. Raises DecisionError, DecisionLost, NoTwoPhaseCommit, NotAllowed, ClientError."""
        options = self._options
        first = remembered(options) is None
        with connected(options) as cluster:
            check_two_phase_commit(cluster, options.sink_id)
            store = store_of(cluster, options)
            if self._query_id is not None:
                check_query(store.peek(), self._query_id)  # The sink's own query may continue.
            if options.topic is not None:
                partition_counts(cluster)(options.topic)
            if first:  # Check the permission before taking the sink, rather than failing in each task.
                _check_permission(cluster, options.sink_id)
            if options.decisions.is_topic:
                # Fence a driver with mode=single that is still alive; its last commit is read below.
                init_producer(cluster, single_id(options.sink_id), TIMEOUT_MS)
            claim = store.take()
            gate = init_producer(cluster, _gate_id(options.sink_id), TIMEOUT_MS).pair
            store.check()  # If another driver has taken the sink meanwhile, the gate belongs to that driver.
            settled = settle(cluster, store, options.sink_id)
            remember(options, f"{claim} {gate}")
            return Taken(claim, settled.last, gate)

    def write(self, taken: Taken, query_id: str, batch_id: int, batches: Iterable[pa.RecordBatch]) -> TaskMessage:
        """Write a task's rows in a transaction. Raises BadRows, NoTwoPhaseCommit, NotAllowed, AttemptTooLate, ClientError."""
        options, context = self._options, TaskContext.get()
        assert context is not None
        task, number = context.partitionId(), context.attemptNumber()
        with (
            connected(options) as cluster,
            explaining_refused_sizes(),
            Attempt(cluster, options.sink_id, taken.pair, task, number) as attempt,
        ):
            for piece in pieces(
                batches,
                options.topic,
                partition_counts(cluster),
                options.compression,
                task,
                True,
                batch_limits(cluster),
            ):
                attempt.produce(piece.topic, piece.partition, piece.data)
            written = attempt.finish()
        rows = sum(piece.records for piece in written.values())
        return TaskMessage(taken.claim, taken.pair, query_id, attempt.transaction, False, rows, written)

    def commit(self, messages: Sequence[TaskMessage], batch_id: int) -> None:
        """Decide and commit the batch. Raises DecisionError, DecisionLost, ClientError, CommittedLater."""
        options = self._options
        transactions = tuple(message.transaction for message in messages if message.transaction is not None)
        has_decision = bool(transactions) or options.write is not None
        with connected(options) as cluster:
            store = store_of(cluster, options)
            store.resume(messages[0].claim)
            if has_decision:
                writes = writes_after(store.last(), options.write)
                _decide(
                    store,
                    messages[0].claim,
                    Decision(options.sink_id, messages[0].query_id, batch_id, transactions, writes),
                )
            try:
                _close_gate(cluster, options.sink_id, messages[0].pair)
                settle(cluster, store, options.sink_id)
            except ClientError as fault:
                if not has_decision:
                    raise
                raise CommittedLater(
                    f"batch {batch_id} of sink {options.sink_id!r} is decided and must not be written again: its "
                    f"remaining transactions are committed when the sink is used next: {fault}"
                ) from fault

    def abort(self, messages: Sequence[TaskMessage]) -> None:
        """End the open transactions. Raises Superseded if another driver has taken the sink, which then ends them itself."""
        options = self._options
        known = f"{messages[0].claim} {messages[0].pair}" if messages else remembered(options)
        with connected(options) as cluster:
            store, gate = store_of(cluster, options), NO_PRODUCER
            if known is not None:
                claim, pair = known.split()
                store.resume(int(claim))
                gate = PreparedTxnState.parse(pair)
            store.take()  # Other processes or queries of this application with the same claim cannot decide any more.
            _close_gate(cluster, options.sink_id, gate)
            settle(cluster, store, options.sink_id)


def _decide(store: Decisions, claim: int, decision: Decision) -> None:
    """Store a decision; if the response is lost, read it back. Raises DecisionError, ClientError, DecisionUnknown."""
    try:
        store.decide(decision)
    except ClientError as fault:
        try:
            store.resume(claim)
            last = store.last()
        except ClientError:
            raise DecisionUnknown(
                f"it is unknown whether batch {decision.batch_id} of sink {decision.sink_id!r} is decided: restart a stream, "
                f"which reads the decision; before you repeat a batch write, check that its rows are missing: {fault}"
            ) from fault
        if last is None or last.decision != decision:
            raise


def _gate_id(sink_id: str) -> str:
    return f"{sink_id}-gate"


def _close_gate(cluster: Cluster, sink_id: str, gate: PreparedTxnState) -> None:
    """Close the gate: attempts with this producer id and epoch cannot begin from now on."""
    with suppress(ProducerFenced):  # Another driver has already bumped the gate's epoch.
        init_producer(cluster, _gate_id(sink_id), TIMEOUT_MS, owner=gate)


def check_two_phase_commit(cluster: Cluster, sink_id: str) -> None:
    """Check before the tasks whether the coordinator supports two-phase commit. Raises NoTwoPhaseCommit."""
    name = transactional_id(sink_id, 0, 0)

    def check() -> None:
        cluster.version(cluster.coordinators([name])[name], INIT_PRODUCER_ID, least=TWO_PHASE_FROM)

    try:
        cluster.retrying(check)
    except UnsupportedVersion as fault:
        raise _no_two_phase_commit(fault) from fault


def _check_permission(cluster: Cluster, sink_id: str) -> None:
    """Check the TWO_PHASE_COMMIT permission with the gate's id, which has no transaction. Raises NoTwoPhaseCommit, NotAllowed."""
    with _asking_for_two_phase(_gate_id(sink_id), sink_id):
        init_producer(cluster, _gate_id(sink_id), TIMEOUT_MS, two_phase=True)


@contextmanager
def _asking_for_two_phase(name: str, sink_id: str) -> Iterator[None]:
    """Translate the errors of InitProducerId for the id `name`. Raises NoTwoPhaseCommit, NotAllowed, ClientError."""
    try:
        yield
    except UnsupportedVersion as fault:
        raise _no_two_phase_commit(fault) from fault
    except BrokerError as fault:
        if fault.code == ErrorCode.UNSUPPORTED_VERSION:
            raise _no_two_phase_commit(fault) from fault
        if fault.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise NotAllowed(
                f"transactional id {name!r} may not be used for two-phase commit: grant WRITE, DESCRIBE and TWO_PHASE_COMMIT "
                f"on ids that begin with {sink_id + '-'!r} (Stuntbroker: stuntbroker.deny.two.phase.commit), or use option "
                f"mode=single: {fault}"
            ) from fault
        raise


def _no_two_phase_commit(fault: ClientError) -> NoTwoPhaseCommit:
    return NoTwoPhaseCommit(f"these brokers have no two-phase commit (KIP-939), use option mode=single: {fault}")


class Attempt:
    """The transaction of one task attempt: the first batch begins it, and a failure aborts it."""

    def __init__(self, cluster: Cluster, sink_id: str, gate: PreparedTxnState, task: int, number: int) -> None:
        self.transaction: Transaction | None = None
        self._cluster = cluster
        self._sink_id = sink_id
        self._gate = gate
        self._task = task
        self._number = number
        self._writer: TransactionalWriter | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        # After TimedOut, aborting would wait again for absent brokers.
        if kind is not None and not issubclass(kind, TimedOut):
            with suppress(ClientError):  # Otherwise the driver aborts it, as no message names it.
                self._writer.abort()
        self._writer.close()

    def produce(self, topic: str, partition: int, data: bytearray) -> None:
        """Send an encoded batch; the first one begins the transaction."""
        if self._writer is None:
            self._writer = self._begin()
        self._writer.produce(topic, partition, data)

    def finish(self) -> dict[tuple[str, int], Written]:
        """Prepare the transaction and leave it open; return what was written, by topic and partition."""
        if self._writer is None:
            return {}
        self.transaction = Transaction(self._writer.transactional_id, *self._writer.prepare())
        return self._writer.written

    def _begin(self) -> TransactionalWriter:
        for slot in range(self._number, self._number + SLOTS_MAX):
            writer = TransactionalWriter(self._cluster, transactional_id(self._sink_id, self._task, slot))
            self._check_gate()  # A transaction that is being committed must not be kept: that would hide its outcome.
            with _asking_for_two_phase(writer.transactional_id, self._sink_id):
                is_taken = writer.init(two_phase=True, keep=True)
            if not is_taken:
                self._check_gate()
                return writer
            writer.close()
        raise ClientError(f"{SLOTS_MAX} transactions of task {self._task} of sink {self._sink_id!r} are open")

    def _check_gate(self) -> None:
        """Raises AttemptTooLate."""
        name = _gate_id(self._sink_id)
        description = Admin(self._cluster).describe_transactions([name])[name]
        if description is None or (description.producer_id, description.producer_epoch) != self._gate:
            raise AttemptTooLate(
                f"task {self._task} of sink {self._sink_id!r} is too late: its batch has ended, or another driver has the sink"
            )
