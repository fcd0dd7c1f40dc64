"""What may be asked of a transaction, and what the shell must do about it: values, nothing else."""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.coordinator.state import TopicPartition, Txn
from stuntbroker.protocol.errors import ErrorCode

OK = ErrorCode.NONE


class InitProducerId(NamedTuple):
    """`timeout_ms` was checked by the shell against its own limits; TIMEOUT_NONE for a two-phase transaction."""

    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    keep: bool = False
    """KeepPreparedTxn (KIP-939): an open transaction is not aborted, its outcome is up to who asks."""
    version: int = -1
    """Of the request; told only in profile kip-588, where it says how much the client understands."""


class AddPartitions(NamedTuple):
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int
    """2 when the request that adds them is of transaction version 2 (Produce 12, TxnOffsetCommit 5), else 0."""


class Verify(NamedTuple):
    """Is this partition in the transaction? Asked for clients of transaction version 0 and 1."""

    producer_id: int
    producer_epoch: int
    partition: TopicPartition


class EndTxn(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    """2 from EndTxn version 5 on: the epoch is bumped and the answer carries the new one."""


class TimeOut(NamedTuple):
    """The transaction has been open for longer than its time-out."""


class MarkersWritten(NamedTuple):
    """Every partition of the prepared transaction has its marker."""


Request = InitProducerId | AddPartitions | Verify | EndTxn | TimeOut | MarkersWritten


class Context(NamedTuple):
    """What a decision may know besides the transaction and the request."""

    now_ms: int
    transaction_version: int
    """Finalized level of the feature `transaction.version`: 0, 1 or 2."""
    spare_producer_id: int
    """A producer id that nobody has; the decision says whether it took it."""
    first_epoch: int = 0
    """Epoch that a new transactional id begins with."""
    remembers_time_outs: bool = False
    """Profile kip-588: a producer whose transaction was timed out is told so, and may claim the next epoch."""


class Append(NamedTuple):
    """Write the state to the transaction log. Durable BEFORE any later effect."""

    txn: Txn


class WriteMarkers(NamedTuple):
    """End the transaction in all its partitions; MarkersWritten is asked when each has its marker."""

    txn: Txn


TRANSACTION_TIMED_OUT: Final = -588
"""An error of profile kip-588 that has no number of its own in Kafka: handlers give it one by what the client knows."""


class Seal(NamedTuple):
    """The transaction takes no more records: who wrote them is gone, who decides on them now does not write (KIP-939)."""

    txn: Txn


class Reply(NamedTuple):
    """The one answer to the request. Producer id and epoch are -1 with an error."""

    error: int
    """An ErrorCode, or TRANSACTION_TIMED_OUT."""
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_producer_id: int = -1
    """With `ongoing_producer_epoch`: whose records are in the transaction that was kept (KIP-939)."""
    ongoing_producer_epoch: int = -1


class Again(NamedTuple):
    """Ask the same request once more: the state that stood in its way is gone."""


Effect = Append | WriteMarkers | Seal | Reply | Again


class Decision(NamedTuple):
    """`effects` are performed in order; the first that fails stops the rest. `txn` is the state after all of them."""

    txn: Txn
    effects: tuple[Effect, ...]
    took_spare: bool = False
