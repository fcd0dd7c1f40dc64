"""`transaction()` blocks: each ends the transactions that it has begun, and reports it if another caller has aborted one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.session import Session, TransactionOutcome
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State
from stuntbroker.client.transactional_errors import IllegalStateError

_entered: Final[ContextVar[tuple[TransactionBlock, ...]]] = ContextVar("_entered", default=())
"""The blocks around the code that runs: tasks that it creates are within them too, and so are calls of the blocking twin."""


class TransactionBlock:
    """One block of a producer. Other tasks and threads may end its transaction, and even begin the next one."""

    def __init__(self, session: Session, calls: Calls) -> None:
        self._session = session
        self._calls = calls
        self._begun: TransactionOutcome = session.outcome
        """The latest transaction that was begun within the block."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run code within the block."""
        before = _entered.get()
        _entered.set((*before, self))
        try:
            yield
        finally:
            _entered.set(before)

    def has_to_be_committed(self) -> bool:
        """Return whether the block still has to commit, or to take the result of a pending call.

        Raises IllegalStateError if the transaction was aborted, and not within the block: its records are lost.
        """
        begun, session = self._begun, self._session
        if begun is session.outcome and (not begun.has_ended or self._calls.pending is not None):
            return True
        if begun.is_committed or self in begun.ended_within:
            return False
        text = f"transaction() of producer {session.transactional_id!r}: another task or thread has aborted the transaction"
        raise IllegalStateError(text + (", by stop()" if session.state is State.CLOSED else ""))

    @property
    def has_to_be_aborted(self) -> bool:
        """Whether the block has to abort, after an exception."""
        if self._begun is not self._session.outcome:
            return False
        if self._calls.is_prepared_state_lost:
            return True
        can_abort = OUTCOMES[self._session.state, Call.ABORT_TRANSACTION] is Outcome.RUN
        return can_abort and self._session.state is not State.PREPARED_TRANSACTION and self._calls.pending is None

    @staticmethod
    def note_begin(session: Session) -> None:
        """Note that the transaction which has just begun is one of the blocks around the caller."""
        for block in _entered.get():
            if block._session is session:
                block._begun = session.outcome

    @staticmethod
    def note_end(outcome: TransactionOutcome) -> None:
        """Note that the caller has ended a transaction."""
        outcome.ended_within = _entered.get()
