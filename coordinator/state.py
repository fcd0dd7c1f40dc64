"""What a transaction may be, as a diagram, a table and a value.

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

from enum import IntEnum
from typing import Final, NamedTuple

TIMEOUT_NONE: Final = 2**31 - 1
"""`timeout_ms` of a two-phase transaction: it is never timed out (KIP-939)."""
EPOCH_LAST: Final = 32_766
"""The last epoch that a client ever holds. 32,767 is kept for fencing."""

TopicPartition = tuple[str, int]


class Phase(IntEnum):
    """Numbers are those of Kafka's transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def kafka_name(self) -> str:
        """As DescribeTransactions and ListTransactions show it."""
        return self.name.title().replace("_", "")


P = Phase
SUCCESSORS: Final[dict[Phase, frozenset[Phase]]] = {
    P.EMPTY:           frozenset({P.EMPTY, P.ONGOING, P.PREPARE_ABORT}),
    P.ONGOING:         frozenset({P.ONGOING, P.PREPARE_COMMIT, P.PREPARE_ABORT}),
    P.PREPARE_COMMIT:  frozenset({P.COMPLETE_COMMIT}),
    P.PREPARE_ABORT:   frozenset({P.COMPLETE_ABORT}),
    P.COMPLETE_COMMIT: frozenset({P.EMPTY, P.ONGOING, P.PREPARE_ABORT}),
    P.COMPLETE_ABORT:  frozenset({P.EMPTY, P.ONGOING, P.PREPARE_ABORT}),
}  # fmt: skip

COMPLETED: Final = frozenset({P.COMPLETE_COMMIT, P.COMPLETE_ABORT})
PREPARED: Final = frozenset({P.PREPARE_COMMIT, P.PREPARE_ABORT})
MAY_EXPIRE: Final = frozenset({P.EMPTY, *COMPLETED})


class Txn(NamedTuple):
    """Everything that is known of a transactional id. Ids and epochs are -1 where there is none."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    """The producer id before the last transition; while a kept transaction ends, the id that its EndTxn came with."""
    next_producer_id: int
    """Set from Prepare to Complete when the epochs are used up: the id that the client goes on with.

    With `next_producer_epoch` it is the pair that the client of a kept transaction holds.
    """
    producer_epoch: int
    next_producer_epoch: int
    """Set only in a transaction that InitProducerId kept (KIP-939): records and markers bear `producer_id` and
    `producer_epoch`, requests bear `next_producer_id` and this."""
    last_producer_epoch: int
    """The epoch before the last bump that its owner may repeat (KIP-360)."""
    timeout_ms: int
    phase: Phase
    partitions: frozenset[TopicPartition]
    started_at_ms: int
    updated_at_ms: int
    client_version: int
    """Transaction version of the requests of this transaction: 0 or 2."""
    timed_out_epoch: int = -1
    """Profile kip-588: epoch whose transaction was timed out, until its producer claims the one after it."""
    init_version: int = -1
    """Profile kip-588: version of the InitProducerId request by which the owner came."""

    @property
    def kept(self) -> bool:
        """A new instance has taken the transaction over as it is, to commit or to abort it (KIP-939)."""
        return self.next_producer_epoch != -1

    @property
    def client_pair(self) -> tuple[int, int]:
        """The producer id and epoch that the owner's requests must bear."""
        if self.next_producer_epoch != -1:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch


ID: Final = 0
PHASE: Final = 8
UPDATED_AT_MS: Final = 11
"""Places of fields, where every transaction asks for them: by name they take several times as long."""
assert (Txn._fields[ID], Txn._fields[PHASE], Txn._fields[UPDATED_AT_MS]) == ("transactional_id", "phase", "updated_at_ms")


def new_txn(transactional_id: str, producer_id: int, epoch: int = -1) -> Txn:
    """An id that nobody has used yet; nothing of it is in the log."""
    return Txn(transactional_id, producer_id, -1, -1, epoch, -1, -1, -1, P.EMPTY, frozenset(), -1, -1, 0)


def check_step(before: Phase, after: Phase) -> None:
    assert after in SUCCESSORS[before], f"{before.name} -> {after.name}"
