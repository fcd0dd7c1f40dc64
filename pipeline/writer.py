"""Write encoded batches in the transactions of one transactional id: the pipeline's wrapper of the client's producer.

    writer = TransactionalWriter(cluster, "sink-0-0")
    writer.init(two_phase=True)
    writer.produce("topic", 0, batch)        # returns while the batch is in flight
    state = str(writer.prepare())            # all records are in the log; store this with the decision
    writer.close()                           # the transaction stays open

`client.blocking.TransactionalProducer` implements the protocol. This module translates its errors to those of
`client.errors`, which the rest of the pipeline uses, and records the written offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from aiokafka.errors import KafkaConnectionError, KafkaError

from stuntbroker.client.blocking import SentRecord, TransactionalProducer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import (
    LOST_PRODUCERS,
    BrokerError,
    ClientError,
    ConnectionFailed,
    TimedOut,
    TransactionAbortable,
    UnsupportedVersion,
)
from stuntbroker.client.prepared_state import NO_PRODUCER, PreparedTxnState
from stuntbroker.client.producer.states import State
from stuntbroker.client.transactional_errors import (
    IllegalStateError,
    OperationTimedOutError,
    ProducerError,
    ResponseError,
    TransactionAbortableError,
    UnsupportedVersionError,
)
from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.topic_names import TopicPartition

TIMEOUT_MS: Final = 60_000
BUFFER_BYTES: Final = 20 << 20
"""Maximum bytes of in-flight batches, which are kept in memory."""


class Written(NamedTuple):
    """Offset range and number of records of a transaction in one partition."""

    first_offset: int
    last_offset: int
    records: int


class TransactionalWriter:
    """Producer of one transactional id. It must not be shared between threads or used across a fork.

    After TransactionAbortable, only abort() is allowed; after any other error, only a new init().
    """

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        """Use the producer connections and the time-out of `cluster`."""
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._producer: TransactionalProducer | None = None
        self._known: set[TopicPartition] = set()
        """Partitions that are known to exist."""
        self._sent: list[tuple[TopicPartition, SentRecord, int]] = []

    @property
    def pair(self) -> PreparedTxnState:
        """Producer id and epoch."""
        return NO_PRODUCER if self._producer is None else self._producer.identity

    @property
    def written(self) -> dict[TopicPartition, Written]:
        """Acknowledged records of this transaction, by partition."""
        written: dict[TopicPartition, Written] = {}
        for where, sent, records in self._sent:
            if not sent.done() or sent.exception() is not None:
                continue
            first = sent.result().offset
            if first < 0:  # The broker recognised a duplicate but no longer knows the offset of the original batch.
                continue
            before = written.get(where, Written(first, -1, 0))
            written[where] = Written(
                min(before.first_offset, first),
                max(before.last_offset, first + records - 1),
                before.records + records,
            )
        return written

    # --- begin

    def init(self, two_phase: bool = False, keep: bool = False) -> bool:
        """Initialise the id, fencing its earlier producers; return whether an open transaction was kept (`keep`, KIP-939).

        A kept transaction accepts no more records. Raises ProducerFenced, UnsupportedVersion, TimedOut.
        """
        options = {"enable_2pc": True} if two_phase else {"transaction_timeout_ms": self._timeout_ms}
        with self._translating_errors("InitProducerId"):
            producer = self._start(options)
            producer.init_transactions(keep_prepared_txn=keep)
        return producer.state is State.PREPARED_TRANSACTION

    def join(self, pair: PreparedTxnState) -> None:
        """Join the transaction of a producer that another process has initialised; each process writes to its own partitions."""
        with self._translating_errors("joining"):
            self._start({}).join_transaction(pair)

    def _start(self, options: dict[str, Any]) -> TransactionalProducer:
        self.close()
        self._producer = self._cluster.producer(self.transactional_id, buffer_memory=BUFFER_BYTES, **options)
        return self._producer

    # --- records

    def produce(self, topic: str, partition: int, batches: bytearray | Iterable[bytearray]) -> None:
        """Send batches; block while BUFFER_BYTES are in flight.

        Raises NotFound, ProducerFenced, ProducerUnknown, TransactionAbortable, TimedOut.
        """
        producer = self._ready()
        where = topic, partition
        if where not in self._known:  # A producer would create a topic that has been deleted.
            self._cluster.retrying(lambda: self._cluster.leader(topic, partition))
            self._known.add(where)
        with self._translating_errors(f"writing to {topic}-{partition}"):
            if producer.state is State.READY:
                self._sent.clear()
                producer.begin_transaction()
            for batch in (batches,) if isinstance(batches, bytearray) else batches:
                sent = producer.send_batch(batch, topic, partition=partition)
                self._sent.append((where, sent, read_header(batch).count))

    def flush(self) -> None:
        """Wait until every batch is acknowledged."""
        with self._translating_errors("writing"):
            self._ready().flush()

    def prepare(self) -> PreparedTxnState:
        """Wait for all records and prepare the transaction: from then on it can only be committed or aborted (KIP-939)."""
        with self._translating_errors("preparing"):
            return self._ready().prepare_transaction()

    # --- end

    def commit(self) -> None:
        """Commit the transaction. After TransactionAbortable, abort it; after TimedOut, the outcome is unknown."""
        self._end(commit=True)

    def abort(self) -> None:
        """Abort the transaction, also after refused batches. Raises the error that made the writer unusable."""
        self._end(commit=False)

    def _end(self, commit: bool) -> None:
        producer = self._ready()
        if producer.state is State.READY:
            return  # There is no transaction.
        with self._translating_errors("commit" if commit else "abort"):
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        self._sent.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the producer; an open transaction stays open."""
        producer, self._producer = self._producer, None
        self._sent.clear()
        if producer is not None:
            producer.stop(leave_open=True)

    # --- errors

    def _ready(self) -> TransactionalProducer:
        if self._producer is None:
            raise ClientError(f"{self.transactional_id!r}: call init() first")
        return self._producer

    @contextmanager
    def _translating_errors(self, what: str) -> Iterator[None]:
        """Raise the pipeline's errors instead of the producer's."""
        try:
            yield
        except (KafkaError, IllegalStateError, ValueError) as fault:
            raise self._translation(what, fault) from fault

    def _translation(self, what: str, fault: KafkaError | IllegalStateError | ValueError) -> ClientError:
        cause = fault.__cause__ if isinstance(fault.__cause__, ResponseError) else None
        code = fault.code if isinstance(fault, ProducerError) else None
        if code:
            kind = TransactionAbortable if isinstance(fault, TransactionAbortableError) else BrokerError
            text = f"{self.transactional_id!r}: {what if cause is None else cause.request}"
            reason = fault.reason if isinstance(fault, ProducerError) else None
            return LOST_PRODUCERS.get(code, kind)(text, code, reason or (None if cause is None else cause.reason))
        kinds = {
            UnsupportedVersionError: UnsupportedVersion,
            OperationTimedOutError: TimedOut,
            TransactionAbortableError: TimedOut,  # No broker refused a batch: the delivery time-out has expired.
            KafkaConnectionError: ConnectionFailed,
        }
        translation = next((kinds[cls] for cls in type(fault).__mro__ if cls in kinds), ClientError)
        return translation(f"{self.transactional_id!r} {what}: {fault}")
