"""The end of a `transaction()` block: whose transaction is open now, and who has ended that of the block."""

from __future__ import annotations

from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.errors import IllegalStateError
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State


class TransactionBlock:
    """The transaction that a block has just begun. Other tasks and threads may end it, and even begin the next one."""

    def __init__(self, session: Session, calls: Calls, caller: object) -> None:
        """`caller`: the task or the thread of the block."""
        self._session = session
        self._calls = calls
        self._caller = caller
        self._number = session.transactions

    @property
    def _is_current(self) -> bool:
        """Whether no other transaction has begun since. The number also rises when a transaction ends."""
        return self._session.transactions <= self._number + 1

    def has_to_be_committed(self) -> bool:
        """Return whether the block still has to commit, or to take the result of a pending call.

        Raises IllegalStateError if the transaction was aborted, and not by the block: its records are lost, and nobody has told
        the block.
        """
        session = self._session
        if session.transactions == self._number and not session.has_ended:
            return True
        if self._is_current and self._calls.pending is not None:
            return True
        if session.last_committed != self._number and not self._has_ended_it:
            text = f"transaction() of producer {session.transactional_id!r}: another task or thread has aborted it"
            raise IllegalStateError(text + (", by stop()" if session.state is State.CLOSED else ""))
        return False

    @property
    def _has_ended_it(self) -> bool:
        """Whether the block itself has ended the transaction."""
        number, caller = self._session.ended_by
        return caller is self._caller and self._number <= number <= self._number + 1

    @property
    def has_to_be_aborted(self) -> bool:
        """Whether the block has to abort, after an exception."""
        if self._calls.is_prepared_state_lost:
            return self._is_current
        can_abort = OUTCOMES[self._session.state, Call.ABORT_TRANSACTION] is Outcome.RUN
        is_open = self._session.transactions == self._number and self._session.state is not State.PREPARED_TRANSACTION
        return is_open and can_abort and self._calls.pending is None
