"""Implementation of a producer's transactional calls, after the checks that the state allows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from stuntbroker.client.logger import log
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.coordination import Coordination, GroupMetadata, StoppedError
from stuntbroker.client.producer.sender import Sender
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import Call, State
from stuntbroker.client.transactional_errors import (
    FatalError,
    IllegalStateError,
    OperationTimedOutError,
    ProducerError,
    TransactionAbortableError,
    UnexpectedError,
)
from stuntbroker.protocol.topic_names import TopicPartition


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(
        self,
        session: Session,
        calls: Calls,
        sender: Sender,
        coordination: Coordination,
        timeout_ms: int,
        is_two_phase: bool,
    ) -> None:
        self._session = session
        self._calls = calls
        self._sender = sender
        self._coordination = coordination
        self._timeout_ms = timeout_ms
        self._is_two_phase = is_two_phase

    async def init(self, keep: bool) -> None:
        """Send InitProducerId; with `keep`, an open transaction stays open as prepared. Raises as `init_transactions`."""
        try:
            await self._coordination.init(self._timeout_ms, self._is_two_phase, keep)
        except TransactionAbortableError:
            self._session.move(State.UNINITIALIZED)
            raise
        self._sender.start_epoch()
        self._session.move(State.PREPARED_TRANSACTION if self._session.prepared else State.READY)

    async def join(self, identity: PreparedTxnState) -> None:
        """Join the transaction of the producer with this identity."""
        session = self._session
        session.identity = identity
        try:
            await self._coordination.join()
        except TransactionAbortableError:
            session.move(State.UNINITIALIZED)
            raise
        self._sender.start_epoch()
        session.reset_transaction()
        session.share()
        session.is_joined = True
        session.has_started = True
        session.move(State.IN_TRANSACTION)

    async def commit(self) -> None:
        """Write all records and commit; raise CommitFailedError if that is not possible."""
        session = self._session
        await self._sender.flush()
        await self._coordination.wait_for_requests()
        has_started = session.has_started or session.may_have_started
        is_committed = False
        if session.state is State.COMMITTING_TRANSACTION and has_started:
            try:
                is_committed = await self._coordination.end(commit=True)
            except (TransactionAbortableError, StoppedError):
                log.debug("%r: the commit failed", self._session.transactional_id)
            else:
                if not is_committed:
                    session.has_started = session.may_have_started = False  # Aborted by its coordinator.
            finally:
                session.is_commit_under_way = False
        if not is_committed and session.state is not State.COMMITTING_TRANSACTION:
            session.check(Call.COMMIT_TRANSACTION)
        session.outcome.is_committed = True
        try:
            await self._prepare_next()
        except FatalError as fault:
            log.info("%r: committed, but no further transaction is possible: %s", self._session.transactional_id, fault)

    async def abort(self) -> None:
        """Drop the records that are not written, and abort."""
        await self._sender.drop_and_wait()
        if self._session.has_started or self._session.may_have_started:
            await self._coordination.end(commit=False)
        await self._prepare_next()

    async def _prepare_next(self) -> None:
        """Get ready for the next transaction, under a new epoch if there is one or if one is needed."""
        session = self._session
        session.outcome.has_ended = True
        if session.state is State.FATAL_ERROR:
            session.check(Call.BEGIN_TRANSACTION)
        # EndTxn returns a new epoch only under transaction version 2, and is not sent if the transaction has not started.
        if session.needs_new_epoch or session.prepared == session.identity:
            # A late request of the transaction that has ended must not become part of the next one.
            if not session.is_version_2 and not session.can_get_new_epoch:
                session.fail_fatal(UnexpectedError("brokers before Kafka 2.5 cannot give a producer a new epoch"))
                session.check(Call.BEGIN_TRANSACTION)
            session.move(State.INITIALIZING)
            await self._coordination.bump(self._timeout_ms, self._is_two_phase)
        self._sender.start_epoch()
        session.reset_transaction()
        session.move(State.READY)

    async def send_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit offsets of a group as part of the transaction. `offsets`: (offset, metadata)."""
        name = Call.SEND_OFFSETS
        try:
            await self._calls.within(name, self._coordination.commit_offsets(group, offsets))
        except OperationTimedOutError as fault:
            self._session.fail_unless_committing(fault, bump=True)
            self._sender.drop()
            self._calls.check(name)
        except asyncio.CancelledError:
            # It is not known whether the offsets are part of the transaction: a commit could lose them.
            self._session.fail_unless_committing(ProducerError(f"{name}() was cancelled"), bump=True)
            self._sender.drop()
            raise
        except StoppedError as fault:
            self._session.check(name)
            raise IllegalStateError(f"{name}() of {self._session.transactional_id!r}: {fault.args[0]}") from None
        except ProducerError:
            self._sender.drop()
            raise

    async def prepare(self) -> None:
        """Prepare the transaction when no request is in flight: a later failure could not prevent the commit any more."""
        await self._sender.flush()
        await self._coordination.wait_for_requests()
        self._session.check(Call.PREPARE_TRANSACTION)
        self._session.prepared = self._session.identity
        self._session.move(State.PREPARED_TRANSACTION)

    async def complete(self, is_commit: bool) -> bool:
        """End a prepared transaction; return whether it was committed."""
        await (self.commit() if is_commit else self.abort())
        return is_commit

    async def add_partitions(self) -> None:
        """Below transaction version 2: add every partition to the transaction before its first record is sent."""
        needed = self._sender.add_partitions_needed
        while True:
            await needed.wait()
            needed.clear()
            try:
                await self._calls.guard(self._coordination.add_partitions(self._sender.missing_partitions))
            except (ProducerError, IllegalStateError) as fault:
                log.debug("%r: %s", self._session.transactional_id, fault)
                self._sender.drop()
            else:
                self._sender.pump()
