"""The state of one transactional id: a diagram, a table of transitions, and an immutable value.

                   first partition added
    ┌─────────┐ ─────────────────────────▶ ┌─────────┐
┌──▶│  EMPTY  │                            │ ONGOING │◀─┐ more partitions
│   └─────────┘ ◀───────────┐              └─────────┘──┘
│     │  ▲ └─ InitProducerId│ InitProducerId  │     │
└─────┘  │                  │          commit │     │ abort, time-out, fence
         │                  │                 ▼     ▼
         │     ┌────────────┴────┐ ◀── PREPARE_  PREPARE_ ──▶ ┌────────────────┐
         │     │ COMPLETE_COMMIT │      COMMIT    ABORT       │ COMPLETE_ABORT │
         │     └─────────────────┘                  ▲         └────────────────┘
         │         │ first partition: ONGOING       │             │ first partition: ONGOING
         └─────────┴── InitProducerId ──────────────┼─────────────┘
                                                    └── an abort without partitions, from EMPTY and COMPLETE_*
                                                        (transaction version 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import EPOCH_MAX, STATES, TIMEOUT_NONE

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class Phase(IntEnum):
    """Phase of a transaction. The numbers are those of Kafka's transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def kafka_name(self) -> str:
        """The name that DescribeTransactions and ListTransactions show."""
        return STATES[self]


class NextPair(NamedTuple):
    """The producer id and epoch of a client after its transaction is complete."""

    producer_id: int
    producer_epoch: int
    is_allocated: bool = False
    """Whether the producer id is a newly allocated one."""


EMPTY: Final = Phase.EMPTY
ONGOING: Final = Phase.ONGOING
PREPARE_COMMIT: Final = Phase.PREPARE_COMMIT
PREPARE_ABORT: Final = Phase.PREPARE_ABORT
COMPLETE_COMMIT: Final = Phase.COMPLETE_COMMIT
COMPLETE_ABORT: Final = Phase.COMPLETE_ABORT

SUCCESSORS: Final[dict[Phase, frozenset[Phase]]] = {
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT}),
}
"""The phases that may follow each phase."""
PREPARE: Final = {True: PREPARE_COMMIT, False: PREPARE_ABORT}
"""The prepared phase of a commit (True) and of an abort (False)."""
COMPLETION: Final = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
"""The completed phase that follows each prepared one."""

COMPLETED: Final = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
OPEN_PHASES: Final = frozenset({ONGOING, *PREPARED})
"""Phases of a transaction that is not complete."""
MAY_EXPIRE: Final = frozenset({EMPTY, *COMPLETED})


class IdSummary(NamedTuple):
    """The entry of a transactional id in a listing."""

    phase: Phase
    producer_id: int


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return sorted partitions as topic -> partition indexes."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


class Txn:
    """The state of a transactional id. Ids, epochs and times (in ms) are -1 if there is none.

    Immutable. `txn_of` builds the states of the log, `new_txn` the initial state, and `advance` every later one. The constructor
    leaves all fields unset but the id: setting them twice would take 2 % of the bytecodes of a transaction.
    """

    __slots__ = (
        "client_version",
        "init_version",
        "last_producer_epoch",
        "next_producer_epoch",
        "next_producer_id",
        "partitions",
        "phase",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "started_at_ms",
        "timed_out_epoch",
        "timeout_ms",
        "transactional_id",
        "updated_at_ms",
    )

    producer_id: int
    previous_producer_id: int
    """The producer id before the last transition; while a recovered transaction ends, the producer id in its EndTxn."""
    next_producer_id: int
    """If the epochs are used up, the producer id that the client uses next; set from Prepare to Complete.

    In a recovered transaction: the client's producer id, used with `next_producer_epoch`.
    """
    producer_epoch: int
    next_producer_epoch: int
    """Set only in a recovered transaction (KIP-939).

    Records and markers then carry `producer_id` and `producer_epoch`; requests carry `next_producer_id` and
    `next_producer_epoch`.
    """
    last_producer_epoch: int
    """The epoch before the last bump, which the producer sends when it retries (KIP-360)."""
    timeout_ms: int
    phase: Phase
    partitions: frozenset[TopicPartition]
    started_at_ms: int
    updated_at_ms: int
    client_version: int
    """Transaction version of the requests of this transaction: 0 or 2."""
    timed_out_epoch: int
    """Profile kip-588: the epoch whose transaction timed out, until the producer claims the next epoch."""
    init_version: int
    """Profile kip-588: the InitProducerId version that the producer used."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id

    @property
    def is_recovered(self) -> bool:
        """Whether a new instance took the transaction over with KeepPreparedTxn, to commit or abort it (KIP-939)."""
        return self.next_producer_epoch != -1

    @property
    def client_pair(self) -> tuple[int, int]:
        """The producer id and epoch that the producer's requests must carry."""
        if self.next_producer_epoch != -1:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Txn) and bool(values_of(self) == values_of(other))

    def __hash__(self) -> int:
        return hash(values_of(self))

    def __repr__(self) -> str:
        return f"Txn({', '.join(f'{name}={value!r}' for name, value in self.as_dict().items())})"


FIELDS: Final = (
    "transactional_id",
    "producer_id",
    "previous_producer_id",
    "next_producer_id",
    "producer_epoch",
    "next_producer_epoch",
    "last_producer_epoch",
    "timeout_ms",
    "phase",
    "partitions",
    "started_at_ms",
    "updated_at_ms",
    "client_version",
    "timed_out_epoch",
    "init_version",
)
"""Names of the fields of a Txn."""
values_of: Final = attrgetter(*FIELDS)
"""The values of the fields of a Txn, in that order."""


def txn_of(
    transactional_id: str,
    *,
    producer_id: int = -1,
    previous_producer_id: int = -1,
    next_producer_id: int = -1,
    producer_epoch: int = -1,
    next_producer_epoch: int = -1,
    last_producer_epoch: int = -1,
    timeout_ms: int = -1,
    phase: Phase = EMPTY,
    partitions: frozenset[TopicPartition] = NO_PARTITIONS,
    started_at_ms: int = -1,
    updated_at_ms: int = -1,
    client_version: int = 0,
    timed_out_epoch: int = -1,
    init_version: int = -1,
) -> Txn:
    """Return a state with these fields, unchecked: for what was written to the log, and for tests."""
    txn = Txn(transactional_id)
    txn.producer_id = producer_id
    txn.previous_producer_id = previous_producer_id
    txn.next_producer_id = next_producer_id
    txn.producer_epoch = producer_epoch
    txn.next_producer_epoch = next_producer_epoch
    txn.last_producer_epoch = last_producer_epoch
    txn.timeout_ms = timeout_ms
    txn.phase = phase
    txn.partitions = partitions
    txn.started_at_ms = started_at_ms
    txn.updated_at_ms = updated_at_ms
    txn.client_version = client_version
    txn.timed_out_epoch = timed_out_epoch
    txn.init_version = init_version
    return txn


def new_txn(transactional_id: str, producer_id: int, producer_epoch: int = -1) -> Txn:
    """Return the state of an unused transactional id, which is not in the log."""
    return txn_of(transactional_id, producer_id=producer_id, producer_epoch=producer_epoch)


def advance(
    before: Txn,
    phase: Phase,
    now_ms: int,
    *,
    producer_id: int | None = None,
    previous_producer_id: int | None = None,
    next_producer_id: int = -1,
    producer_epoch: int | None = None,
    next_producer_epoch: int = -1,
    last_producer_epoch: int | None = None,
    timeout_ms: int | None = None,
    partitions: frozenset[TopicPartition] | None = None,
    started_at_ms: int | None = None,
    client_version: int | None = None,
    timed_out_epoch: int = -1,
    init_version: int | None = None,
) -> Txn:
    """Return the state after a transition; fields that are not given keep their values.

    Exceptions: the next producer id and epoch and the timed-out epoch become -1 unless they are given, and the previous
    producer id becomes the producer id before the transition. Raises AssertionError for a transition that is not in the
    diagram, which is a bug in the rules.
    """
    if phase not in SUCCESSORS[before.phase]:
        raise AssertionError(f"{before.transactional_id}: {before.phase.name} -> {phase.name}")
    after = Txn(before.transactional_id)
    after.producer_id = before.producer_id if producer_id is None else producer_id
    after.previous_producer_id = before.producer_id if previous_producer_id is None else previous_producer_id
    after.next_producer_id = next_producer_id
    after.producer_epoch = before.producer_epoch if producer_epoch is None else producer_epoch
    after.next_producer_epoch = next_producer_epoch
    after.last_producer_epoch = before.last_producer_epoch if last_producer_epoch is None else last_producer_epoch
    after.timeout_ms = before.timeout_ms if timeout_ms is None else timeout_ms
    after.phase = phase
    after.partitions = before.partitions if partitions is None else partitions
    after.started_at_ms = before.started_at_ms if started_at_ms is None else started_at_ms
    after.updated_at_ms = now_ms
    after.client_version = before.client_version if client_version is None else client_version
    after.timed_out_epoch = timed_out_epoch
    after.init_version = before.init_version if init_version is None else init_version
    return after


def with_identity(txn: Txn, producer_id: int | None, producer_epoch: int, now_ms: int) -> Txn:
    """Return the state of an idle transactional id whose next producer continues from another epoch, for tests.

    `producer_id`: None keeps the id.
    """
    return advance(
        txn,
        EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=-1,
        timeout_ms=max(txn.timeout_ms, 0),
        partitions=NO_PARTITIONS,
        started_at_ms=-1,
    )


def bumped_epoch(txn: Txn) -> int:
    """Return the epoch of markers under transaction version 2 and of fencing markers: above the transaction's records."""
    return min(txn.producer_epoch + 1, EPOCH_MAX)


def has_timed_out(txn: Txn, producer_id: int, producer_epoch: int) -> bool:
    """Profile kip-588: whether the producer was fenced because its transaction timed out."""
    return producer_epoch == txn.timed_out_epoch != -1 and producer_id == txn.previous_producer_id


def expires_at_ms(txn: Txn) -> int | None:
    """Return the first time in ms since 1970 at which the transaction has expired; None if it cannot expire."""
    if txn.phase is not ONGOING or txn.timeout_ms == TIMEOUT_NONE:
        return None
    return txn.started_at_ms + txn.timeout_ms + 1


def has_expired(txn: Txn, now_ms: int) -> bool:
    """Whether the transaction has been open for longer than its time-out."""
    at_ms = expires_at_ms(txn)
    return at_ms is not None and at_ms <= now_ms
