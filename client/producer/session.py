"""Data that the parts of a producer share: state, producer id and epoch, and partitions and groups of the transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from stuntbroker.client.logger import log
from stuntbroker.client.prepared_state import NO_PRODUCER, PreparedTxnState
from stuntbroker.client.producer.error_table import DRAFT_NAMES, NO_FACTS, Fact, Kind, Request, fatal_class, kind_of
from stuntbroker.client.producer.states import OUTCOMES, SUCCESSORS, Call, Outcome, State
from stuntbroker.client.transactional_errors import (
    CommitFailedError,
    FatalError,
    IllegalStateError,
    ProducerError,
    ResponseError,
    TransactionAbortableError,
    root_of,
)
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import TRANSACTION_V2

_HARMLESS: Final = frozenset({Kind.SUCCESS, Kind.RETRY, Kind.REFRESH, Kind.SPLIT, Kind.ABORT_TO_DETERMINE_OUTCOME})


def _no_fault() -> None:
    """Return None: there are no records."""


class TransactionOutcome:
    """How a transaction has ended, once it has."""

    def __init__(self) -> None:
        self.has_ended = False
        """Whether it has been committed or aborted."""
        self.is_committed = False
        self.ended_within: tuple[object, ...] = ()
        """The `transaction()` blocks within which it was aborted, or completed."""


class Session:
    """State of one transactional id during the lifetime of its producer."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.on_move: Callable[[State, State, ProducerError | None], None] | None = None
        """Called after each transition, with the old state, the new state, and `error`."""
        self.error: ProducerError | None = None
        """In ABORTABLE_ERROR the root cause, in FATAL_ERROR the error to raise."""
        self.identity = NO_PRODUCER
        """(producer id, epoch) that requests carry."""
        self.transactions = 0
        """Number of the transaction: a call that was made in one transaction must not take effect in the next."""
        self.last_fault: ProducerError | None = None
        """Why a request to a coordinator is currently being retried, for the message of a time-out."""
        self.fault_of_records: Callable[[], ProducerError | None] = _no_fault
        """Returns why records are currently being sent again, for the same message."""
        self.is_shared = False
        """Whether other producers write to the transaction too."""
        self.is_joined = False
        """Whether the transaction was begun by another producer: closing this one leaves it open."""
        self.prepared: PreparedTxnState | None = None
        """Producer id and epoch of the prepared transaction, which may only be ended as decided outside Kafka (KIP-939).

        No later transaction may have the same producer id and epoch, or the stored decision would apply to it, too.
        """
        self.transaction_version = 0
        """The cluster's `transaction.version`, as of the last connection to the coordinator."""
        self.draft_codes = False
        """Whether the broker announces that it follows KIP-588's draft, in which two error codes have other meanings."""
        self.can_get_new_epoch = False
        """Whether the coordinator has InitProducerId 3, with which a producer can request a new epoch (KIP-360)."""
        self.needs_new_epoch = False
        """Whether the next transaction needs a new epoch, because a request of this one may still be in flight."""
        self.groups_added: set[str] = set()
        """Consumer groups that the coordinator has added to the transaction by AddOffsetsToTxn."""
        self.added: set[TopicPartition] = set()
        """Partitions that the coordinator has added to the transaction by AddPartitionsToTxn."""
        self.is_commit_under_way = False
        """Whether EndTxn (commit) was sent: then only its response decides the outcome of the transaction."""
        self.outcome = TransactionOutcome()
        """Outcome of the most recent transaction."""
        self.has_started = False
        """Whether a request of the transaction was sent to a coordinator or leader. If not, EndTxn is not sent either."""
        self.may_have_started = False
        """Whether this or another producer may have sent a request that starts the transaction, with or without a response."""

    @property
    def is_version_2(self) -> bool:
        """Whether every EndTxn returns a new epoch, and Produce adds partitions to the transaction (KIP-890)."""
        return self.transaction_version >= TRANSACTION_V2

    def share(self) -> None:
        """Mark the transaction as shared: other producers may write to it, unknown to this one.

        They use sequence numbers of the epoch, so that the next transaction needs a new epoch.
        """
        self.is_shared = self.may_have_started = self.needs_new_epoch = True

    def check(self, call: Call) -> None:
        """Raise the error that the state table has for a call in the current state; return if the call may run."""
        outcome = OUTCOMES[self.state, call]
        if outcome is not Outcome.RUN:
            self._refuse(call, outcome)

    def _refuse(self, call: Call, outcome: Outcome) -> NoReturn:
        match outcome:
            case Outcome.FATAL:
                assert self.error is not None
                raise self.error.with_traceback(None)
            case Outcome.ABORTABLE:
                raise self.abortable()
            case Outcome.COMMIT_FAILED:
                raise self.commit_failed()
        hint = ", call init_transactions first" if self.state == State.UNINITIALIZED else ""
        raise IllegalStateError(
            f"{call}() of producer {self.transactional_id!r} is not possible: it is {self.state}{hint}"
        )

    def move(self, state: State) -> None:
        """Go to another state. Raises IllegalStateError for a transition that the table does not have."""
        if state not in SUCCESSORS[self.state]:
            raise IllegalStateError(f"{self.transactional_id!r}: no transition from {self.state.name} to {state.name}")
        before, self.state = self.state, state
        if self.on_move is not None:
            self.on_move(before, state, self.error)

    def begin_transaction(self) -> None:
        """Go to IN_TRANSACTION, with no partitions or groups yet."""
        self.reset_transaction()
        self.outcome = TransactionOutcome()
        self.move(State.IN_TRANSACTION)

    def reset_transaction(self) -> None:
        """Clear the data of the last transaction."""
        self.transactions += 1
        self.added.clear()
        self.groups_added.clear()
        self.has_started = False
        self.may_have_started = False
        self.is_shared = self.is_joined = False
        self.prepared = None
        self.error = None

    def abortable(self) -> TransactionAbortableError:
        """Return the error for a transaction that has to be aborted."""
        return self._wrapped(TransactionAbortableError, "the transaction has to be aborted")

    def commit_failed(self) -> CommitFailedError:
        """Return the error for a commit of a transaction that has to be aborted."""
        return self._wrapped(CommitFailedError, "the transaction cannot be committed, abort it")

    def _wrapped(self, kind: type[TransactionAbortableError], advice: str) -> TransactionAbortableError:
        assert self.error is not None
        error = kind(f"{self.transactional_id!r}: {advice}: {self.error.args[0]}", self.error.code)
        error.reason = self.error.reason
        error.__cause__ = root_of(self.error)
        return error

    def fail_abortable(self, cause: ProducerError, bump: bool = False) -> None:
        """Go to ABORTABLE_ERROR, unless the transaction has already failed or is being aborted. The first cause is kept."""
        self.needs_new_epoch |= bump
        if self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
            log.info("%r: the transaction has to be aborted: %s", self.transactional_id, cause)
            self.error = cause
            self.move(State.ABORTABLE_ERROR)

    def fail_unless_committing(self, cause: ProducerError, bump: bool = False) -> None:
        """Call `fail_abortable` for a call that was cancelled or timed out, unless EndTxn (commit) is in flight."""
        if self.is_commit_under_way:
            self.needs_new_epoch |= bump
        else:
            self.fail_abortable(cause, bump)

    def fail_fatal(self, error: FatalError) -> None:
        """Go to FATAL_ERROR: the producer is unusable. The first fatal error is kept."""
        if self.state not in (State.FATAL_ERROR, State.CLOSED):
            log.warning("%r: fatal error: %s", self.transactional_id, error)
            self.error = error
            self.move(State.FATAL_ERROR)

    @property
    def facts(self) -> Fact:
        """Facts about the cluster and the transaction on which the meaning of an error code depends."""
        is_committing = self.state == State.COMMITTING_TRANSACTION
        facts = Fact.KIP_588_DRAFT if self.draft_codes else NO_FACTS
        facts |= NO_FACTS if self.is_version_2 or self.can_get_new_epoch else Fact.NO_NEW_EPOCH
        facts |= NO_FACTS if self.has_started else Fact.NOT_STARTED
        facts |= Fact.PREPARED if is_committing and self.prepared is not None else NO_FACTS
        facts |= Fact.ABORTING if self.state == State.ABORTING_TRANSACTION else NO_FACTS
        return facts | (Fact.SHARED if self.is_shared else NO_FACTS)

    def apply_error_code(
        self, request: Request, code: int, what: str, message: str | None = None, facts: Fact = NO_FACTS
    ) -> Kind:
        """Return the kind of an error code, and go to the error state if the error is final.

        `facts`: those that only the caller knows.

        For a kind other than SUCCESS, RETRY, REFRESH, SPLIT and ABORT_TO_DETERMINE_OUTCOME, the state afterwards is
        ABORTABLE_ERROR or FATAL_ERROR, or still ABORTING_TRANSACTION: an abortable error does not stop an abort.
        """
        if not code:
            return Kind.SUCCESS
        facts |= self.facts
        kind = kind_of(request, code, facts)
        if kind in _HARMLESS:
            return kind
        cause = self.response_error(what, code, message)
        if kind in (Kind.ABORTABLE, Kind.ABORTABLE_WITH_BUMP):
            self.fail_abortable(cause, bump=kind == Kind.ABORTABLE_WITH_BUMP)
            return kind
        text = f"{self.transactional_id!r}: {cause.args[0]}"
        if kind != kind_of(request, code, facts & ~Fact.PREPARED):
            # Other systems may have committed, so that nothing else is tried: a new producer can still commit (KIP-939).
            text += "; the prepared transaction is not committed: start again with init_transactions(keep_prepared_txn=True)"
        error = fatal_class(kind, code, facts)(text, code)
        error.reason = message
        self.fail_fatal(error)
        return kind

    def response_error(self, what: str, code: int, message: str | None = None) -> ResponseError:
        """Return the root cause for an error code that a broker returned."""
        return ResponseError(what, code, message, DRAFT_NAMES.get(code) if self.draft_codes else None)
