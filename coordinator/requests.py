"""Requests to a transaction, and the effects of a decision, which the actor performs. Values only.

Requests and effects are plain immutable classes, which compiled code creates and reads fast.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from stuntbroker.coordinator.state import Txn
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import TopicPartition

OK: Final = ErrorCode.NONE


class Value:
    """Base of immutable values with the fields `__match_args__`; values of one class are equal if their fields are."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def _fields(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.__class__ is other.__class__ and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.__class__.__name__, self._fields()))

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._fields(), strict=True)
        return f"{self.__class__.__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


class InitProducerId(Value):
    """Take over the transactional id. The handler has checked `timeout_ms`; TIMEOUT_NONE requests two-phase commit (KIP-939)."""

    __match_args__: ClassVar[tuple[str, ...]] = (
        "timeout_ms",
        "producer_id",
        "producer_epoch",
        "keep_prepared",
        "version",
    )

    def __init__(
        self,
        timeout_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
        keep_prepared: bool = False,
        version: int = -1,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.keep_prepared = keep_prepared
        """KeepPreparedTxn (KIP-939): an open transaction is not aborted; the new instance decides its outcome."""
        self.version = version
        """Version of the request, for clients of profile kip-588 only: it determines the errors that the client understands."""


class AddPartitions(Value):
    """Add partitions to the transaction; the first ones open it."""

    __match_args__: ClassVar[tuple[str, ...]] = ("producer_id", "producer_epoch", "partitions", "client_version")

    def __init__(
        self, producer_id: int, producer_epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.client_version = client_version
        """2 when the request is of transaction version 2 (Produce 12, TxnOffsetCommit 5), else 0."""


class Verify(Value):
    """Check that a partition is in the transaction, for clients of transaction versions 0 and 1."""

    __match_args__: ClassVar[tuple[str, ...]] = ("producer_id", "producer_epoch", "partition")

    def __init__(self, producer_id: int, producer_epoch: int, partition: TopicPartition) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partition = partition


class EndTxn(Value):
    """Commit or abort the transaction."""

    __match_args__: ClassVar[tuple[str, ...]] = ("producer_id", "producer_epoch", "commit", "client_version")

    def __init__(self, producer_id: int, producer_epoch: int, commit: bool, client_version: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commit = commit
        self.client_version = client_version
        """2 from EndTxn version 5 on: the epoch is bumped, and the response carries the new epoch."""


class TimeOut(Value):
    """The transaction may have been open for longer than its time-out."""


class MarkersWritten(Value):
    """Every partition of the prepared transaction has its marker."""


Request = InitProducerId | AddPartitions | Verify | EndTxn | TimeOut | MarkersWritten


class Context(NamedTuple):
    """Inputs of a decision besides the transaction and the request.

    `Transactions.context` (broker/transactions/registry.py) keeps it until the time or the next producer id changes: a field
    that changes with something else has to be compared there too.
    """

    now_ms: int
    transaction_version: int
    """Finalized level of the feature `transaction.version`: 0, 1 or 2."""
    next_producer_id: int
    """An unused producer id; the decision says whether it allocated it."""
    initial_epoch: int = 0
    """Epoch that a new transactional id starts with."""


class Append(Value):
    """Write the state to the transaction log. It must be durable BEFORE any later effect."""

    __match_args__: ClassVar[tuple[str, ...]] = ("txn",)

    def __init__(self, txn: Txn) -> None:
        self.txn = txn


class WriteMarkers(Value):
    """Write a marker to every partition of the transaction. Then MarkersWritten is decided, and its state appended, deferred."""

    __match_args__: ClassVar[tuple[str, ...]] = ("txn",)

    def __init__(self, txn: Txn) -> None:
        self.txn = txn


class RejectNewRecords(Value):
    """Refuse further records in the transaction: its writer is gone, and the new owner only decides its outcome (KIP-939)."""

    __match_args__: ClassVar[tuple[str, ...]] = ("txn",)

    def __init__(self, txn: Txn) -> None:
        self.txn = txn


TRANSACTION_TIMED_OUT: Final = -588
"""An error of profile kip-588 that has no code in Kafka: handlers choose one that the client understands."""


class Reply(Value):
    """The response to the request. With an error, producer id and epoch are -1."""

    __match_args__: ClassVar[tuple[str, ...]] = (
        "error",
        "producer_id",
        "producer_epoch",
        "ongoing_producer_id",
        "ongoing_producer_epoch",
    )

    def __init__(
        self,
        error: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
        ongoing_producer_id: int = -1,
        ongoing_producer_epoch: int = -1,
    ) -> None:
        self.error = error
        """An ErrorCode, or TRANSACTION_TIMED_OUT."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_producer_id = ongoing_producer_id
        """With `ongoing_producer_epoch`: the producer whose records are in the recovered transaction (KIP-939)."""
        self.ongoing_producer_epoch = ongoing_producer_epoch


class Redecide(Value):
    """Decide the same request once more: the state that prevented it is gone."""


Effect = Append | WriteMarkers | RejectNewRecords | Reply | Redecide


class Decision(Value):
    """Effects to perform in order, and the state after all of them. If an effect fails, the remaining ones are dropped."""

    __match_args__: ClassVar[tuple[str, ...]] = ("txn", "effects", "allocated_producer_id")

    def __init__(self, txn: Txn, effects: tuple[Effect, ...], allocated_producer_id: bool = False) -> None:
        self.txn = txn
        self.effects = effects
        self.allocated_producer_id = allocated_producer_id
        """Whether the decision used the context's `next_producer_id`."""
