"""The requests to a transaction, and the effects that a decision asks the shell to perform. Values only."""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.coordinator.state import TopicPartition, Txn
from stuntbroker.protocol.errors import ErrorCode

OK: Final = ErrorCode.NONE


class InitProducerId(NamedTuple):
    """Take the transactional id over. The shell has checked `timeout_ms`; TIMEOUT_NONE asks for a two-phase transaction."""

    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    keep_prepared: bool = False
    """KeepPreparedTxn (KIP-939): an open transaction is not aborted; the new instance decides its outcome."""
    version: int = -1
    """Version of the request; given only for a client of profile kip-588, where it says how much the client understands."""


class AddPartitions(NamedTuple):
    """Add partitions to the transaction; the first ones open it."""

    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int
    """2 when the request is of transaction version 2 (Produce 12, TxnOffsetCommit 5), else 0."""


class Verify(NamedTuple):
    """Check that a partition is in the transaction, for clients of transaction versions 0 and 1."""

    producer_id: int
    producer_epoch: int
    partition: TopicPartition


class EndTxn(NamedTuple):
    """Commit or abort the transaction."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    """2 from EndTxn version 5 on: the epoch is bumped, and the response carries the new epoch."""


class TimeOut(NamedTuple):
    """The transaction may have been open for longer than its time-out."""


class MarkersWritten(NamedTuple):
    """Every partition of the prepared transaction has its marker."""


Request = InitProducerId | AddPartitions | Verify | EndTxn | TimeOut | MarkersWritten


class Context(NamedTuple):
    """What a decision may depend on besides the transaction and the request."""

    now_ms: int
    transaction_version: int
    """Finalized level of the feature `transaction.version`: 0, 1 or 2."""
    next_producer_id: int
    """A producer id that nobody has; the decision says whether it allocated it."""
    initial_epoch: int = 0
    """Epoch that a new transactional id starts with."""


class Append(NamedTuple):
    """Write the state to the transaction log. It must be durable BEFORE any later effect."""

    txn: Txn


class WriteMarkers(NamedTuple):
    """End the transaction in all its partitions. MarkersWritten is decided when every partition has its marker."""

    txn: Txn


class RejectNewRecords(NamedTuple):
    """Refuse further records in the transaction: its writer is gone, and the new owner only decides its outcome (KIP-939)."""

    txn: Txn


TRANSACTION_TIMED_OUT: Final = -588
"""An error of profile kip-588 without a number of its own in Kafka: handlers choose the number by what the client knows."""


class Reply(NamedTuple):
    """The one response to the request. With an error, producer id and epoch are -1."""

    error: int
    """An ErrorCode, or TRANSACTION_TIMED_OUT."""
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_producer_id: int = -1
    """With `ongoing_producer_epoch`: the producer whose records are in the recovered transaction (KIP-939)."""
    ongoing_producer_epoch: int = -1


class Redecide(NamedTuple):
    """Decide the same request once more: the state that prevented it is gone."""


Effect = Append | WriteMarkers | RejectNewRecords | Reply | Redecide


class Decision(NamedTuple):
    """The shell performs `effects` in order; the first that fails stops the others. `txn` is the state after all of them."""

    txn: Txn
    effects: tuple[Effect, ...]
    allocated_producer_id: bool = False
    """Whether the decision used the context's `next_producer_id`."""
