"""The states of a transactional producer, and the outcome of each call in each state.

The states have the names that they have in Apache Kafka's Java producer (TransactionManager.State), and CLOSED. Both tables
are data: the diagram in the documentation is drawn from `SUCCESSORS`, and a test tries every cell of `OUTCOMES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Final


class State(StrEnum):
    """State of a producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    PREPARED_TRANSACTION = "in a prepared transaction"
    COMMITTING_TRANSACTION = "committing a transaction"
    ABORTING_TRANSACTION = "aborting a transaction"
    ABORTABLE_ERROR = "in a transaction that has to be aborted"
    FATAL_ERROR = "unusable after a fatal error"
    CLOSED = "closed"


SUCCESSORS: Final[dict[State, frozenset[State]]] = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING, State.FATAL_ERROR, State.CLOSED}),
    State.INITIALIZING: frozenset(
        {
            State.UNINITIALIZED,
            State.READY,
            State.IN_TRANSACTION,
            State.PREPARED_TRANSACTION,
            State.FATAL_ERROR,
            State.CLOSED,
        }
    ),
    State.READY: frozenset({State.IN_TRANSACTION, State.FATAL_ERROR, State.CLOSED}),
    State.IN_TRANSACTION: frozenset(
        {
            State.PREPARED_TRANSACTION,
            State.COMMITTING_TRANSACTION,
            State.ABORTING_TRANSACTION,
            State.ABORTABLE_ERROR,
            State.FATAL_ERROR,
            State.CLOSED,
        }
    ),
    State.PREPARED_TRANSACTION: frozenset(
        {State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION, State.FATAL_ERROR, State.CLOSED}
    ),
    State.COMMITTING_TRANSACTION: frozenset(
        {State.READY, State.INITIALIZING, State.ABORTABLE_ERROR, State.FATAL_ERROR, State.CLOSED}
    ),
    State.ABORTING_TRANSACTION: frozenset({State.READY, State.INITIALIZING, State.FATAL_ERROR, State.CLOSED}),
    State.ABORTABLE_ERROR: frozenset({State.ABORTING_TRANSACTION, State.FATAL_ERROR, State.CLOSED}),
    State.FATAL_ERROR: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}
"""State -> the states that may follow it.

An error of a commit leads to ABORTABLE_ERROR, an error of an abort is fatal. INITIALIZING also follows a transaction if the
next one needs a new epoch (KIP-360), and leads to IN_TRANSACTION when the producer joins a transaction.
"""


class Call(StrEnum):
    """The methods of a producer that depend on its state."""

    INIT_TRANSACTIONS = "init_transactions"
    JOIN_TRANSACTION = "join_transaction"
    BEGIN_TRANSACTION = "begin_transaction"
    SHARE_TRANSACTION = "share_transaction"
    SEND = "send"
    FLUSH = "flush"
    SEND_OFFSETS = "send_offsets_to_transaction"
    PREPARE_TRANSACTION = "prepare_transaction"
    COMPLETE_TRANSACTION = "complete_transaction"
    COMMIT_TRANSACTION = "commit_transaction"
    ABORT_TRANSACTION = "abort_transaction"


class Outcome(Enum):
    """What a call does in a state."""

    RUN = "runs"
    WAIT = "waits for the result of the same call, which timed out before"
    ABORTABLE = "raises TransactionAbortableError"
    COMMIT_FAILED = "raises CommitFailedError"
    FATAL = "raises the fatal error"
    ILLEGAL = "raises IllegalStateError"


_RUNS: Final[dict[State, frozenset[Call]]] = {
    State.UNINITIALIZED: frozenset({Call.INIT_TRANSACTIONS, Call.JOIN_TRANSACTION}),
    State.READY: frozenset({Call.BEGIN_TRANSACTION, Call.FLUSH, Call.COMPLETE_TRANSACTION}),
    State.IN_TRANSACTION: frozenset(
        {
            Call.SHARE_TRANSACTION,
            Call.SEND,
            Call.FLUSH,
            Call.SEND_OFFSETS,
            Call.PREPARE_TRANSACTION,
            Call.COMMIT_TRANSACTION,
            Call.ABORT_TRANSACTION,
        }
    ),
    State.PREPARED_TRANSACTION: frozenset({Call.COMPLETE_TRANSACTION, Call.COMMIT_TRANSACTION, Call.ABORT_TRANSACTION}),
    State.ABORTABLE_ERROR: frozenset({Call.ABORT_TRANSACTION}),
}
_WAITS: Final[dict[State, frozenset[Call]]] = {
    State.INITIALIZING: frozenset(
        {
            Call.INIT_TRANSACTIONS,
            Call.JOIN_TRANSACTION,
            Call.COMMIT_TRANSACTION,
            Call.ABORT_TRANSACTION,
            Call.COMPLETE_TRANSACTION,
        }
    ),
    State.COMMITTING_TRANSACTION: frozenset({Call.COMMIT_TRANSACTION, Call.COMPLETE_TRANSACTION}),
    State.ABORTING_TRANSACTION: frozenset({Call.ABORT_TRANSACTION, Call.COMPLETE_TRANSACTION}),
}
_RAISES_ABORTABLE: Final = frozenset(
    {Call.SHARE_TRANSACTION, Call.SEND, Call.FLUSH, Call.SEND_OFFSETS, Call.PREPARE_TRANSACTION}
)


def _outcome(state: State, call: Call) -> Outcome:
    if call in _RUNS.get(state, frozenset()):
        return Outcome.RUN
    if call in _WAITS.get(state, frozenset()):
        return Outcome.WAIT
    if state is State.FATAL_ERROR:
        return Outcome.FATAL
    if state is State.ABORTABLE_ERROR and call is Call.COMMIT_TRANSACTION:
        return Outcome.COMMIT_FAILED
    if state is State.ABORTABLE_ERROR and call in _RAISES_ABORTABLE:
        return Outcome.ABORTABLE
    return Outcome.ILLEGAL


OUTCOMES: Final[dict[tuple[State, Call], Outcome]] = {
    (state, call): _outcome(state, call) for state in State for call in Call
}
"""(state, call) -> what the call does there."""


def diagram() -> Iterator[str]:
    """Yield the lines of a Mermaid state diagram. Transitions to FATAL_ERROR and CLOSED are left out: every state has them."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {State.UNINITIALIZED.name}"
    for state, successors in SUCCESSORS.items():
        for successor in State:
            if successor in successors and successor not in (State.FATAL_ERROR, State.CLOSED):
                yield f"    {state.name} --> {successor.name}"
