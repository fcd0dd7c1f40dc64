"""A producer in each of its states, whatever broker is at the other end, and what its calls do there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from stuntbroker.client import (
    AuthorizationError,
    CommitFailedError,
    IllegalStateError,
    OperationTimedOutError,
    PreparedTxnState,
    ProduceFailedError,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.client.producer.states import OUTCOMES, Call, Outcome, State
from tests.kit.transactions.faults import Fault
from tests.kit.transactions.repeated import repeated

COORDINATOR_LOADING, INVALID_RECORD, NOT_PERMITTED = 14, 87, 53
SOMEBODY = PreparedTxnState(1, 1)
TOPIC = "t"

CALLS: dict[Call, Callable[[TransactionalProducer], Awaitable[object]]] = {
    Call.INIT_TRANSACTIONS: lambda producer: producer.init_transactions(),
    Call.JOIN_TRANSACTION: lambda producer: producer.join_transaction(SOMEBODY),
    Call.SHARE_TRANSACTION: lambda producer: _share(producer),
    Call.BEGIN_TRANSACTION: lambda producer: producer.begin_transaction(),
    Call.SEND: lambda producer: producer.send(TOPIC, b"value"),
    Call.FLUSH: lambda producer: producer.flush(),
    Call.SEND_OFFSETS: lambda producer: producer.send_offsets_to_transaction({(TOPIC, 0): 1}, "group"),
    Call.PREPARE_TRANSACTION: lambda producer: producer.prepare_transaction(),
    Call.COMPLETE_TRANSACTION: lambda producer: producer.complete_transaction(
        SOMEBODY if producer.state is State.ABORTING_TRANSACTION else producer.identity
    ),
    Call.COMMIT_TRANSACTION: lambda producer: producer.commit_transaction(),
    Call.ABORT_TRANSACTION: lambda producer: producer.abort_transaction(),
}
STATE_AFTER = {
    Call.INIT_TRANSACTIONS: State.READY,
    Call.JOIN_TRANSACTION: State.IN_TRANSACTION,
    Call.BEGIN_TRANSACTION: State.IN_TRANSACTION,
    Call.PREPARE_TRANSACTION: State.PREPARED_TRANSACTION,
    Call.COMPLETE_TRANSACTION: State.READY,
    Call.COMMIT_TRANSACTION: State.READY,
    Call.ABORT_TRANSACTION: State.READY,
}
"""The state after a call that has run, if it is another one."""
ERRORS: dict[Outcome, type[BaseException]] = {
    Outcome.WAIT: OperationTimedOutError,
    Outcome.ABORTABLE: TransactionAbortableError,
    Outcome.COMMIT_FAILED: CommitFailedError,
    Outcome.FATAL: AuthorizationError,
    Outcome.ILLEGAL: IllegalStateError,
}
PASSING = (State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
"""States that last as long as a call; after a call that times out, the producer stays in them."""
Move = tuple[State, State]


async def _share(producer: TransactionalProducer) -> object:
    return producer.share_transaction()


class Faults:
    """Faults for the requests of a producer, by request name."""

    def __init__(self) -> None:
        self.always: dict[str, Fault] = {}
        self.once: dict[str, Fault] = {}

    def script(self, request: str, count: int) -> Fault | None:
        return self.once.pop(request, None) or self.always.get(request)

    def clear(self) -> None:
        self.always.clear()
        self.once.clear()


@asynccontextmanager
async def producer_brought_into(
    state: State,
    bootstrap: str,
    faults: Faults,
    by: Call | None = None,
    *,
    moves: set[Move] | None = None,
    upgrade: Callable[[], None] | None = None,
    enable_2pc: bool = True,
    transactional_id: str = "id",
) -> AsyncIterator[TransactionalProducer]:
    """A producer in this state; in one that lasts only as long as a call, because of the call `by`, which timed out.

    `moves`: gets the transitions that the producer makes. `upgrade`: raises the transaction version of the cluster from 1.
    """
    producer = TransactionalProducer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id,
        enable_2pc=enable_2pc,
        retry_backoff_ms=1,
        max_block_ms=150 if state in PASSING else 9000,
    )
    if moves is not None:
        producer._session.on_move = lambda before, after, error: moves.add((before, after))
    await producer.start()
    try:
        await _bring_into(producer, state, by, faults, upgrade)
        assert producer.state is state
        yield producer
    finally:
        faults.clear()
        await producer.stop()


async def check_call(producer: TransactionalProducer, call: Call) -> None:
    """Make a call, which does what the table says for the state of the producer."""
    state = producer.state
    outcome = OUTCOMES[state, call]
    if outcome is Outcome.RUN:
        await CALLS[call](producer)
        assert producer.state is STATE_AFTER.get(call, state)
    else:
        with pytest.raises(ERRORS[outcome]) as raised:
            await CALLS[call](producer)
        assert type(raised.value) is ERRORS[outcome], (call, raised.value)
        assert producer.state is state


async def _bring_into(
    producer: TransactionalProducer,
    state: State,
    by: Call | None,
    faults: Faults,
    upgrade: Callable[[], None] | None,
) -> None:
    if state is State.CLOSED:
        await producer.stop()
        return
    if state is State.UNINITIALIZED:
        return
    if state is State.INITIALIZING and by in (None, Call.INIT_TRANSACTIONS):
        faults.always["InitProducerId"] = Fault(COORDINATOR_LOADING)
        await _until(producer, state, producer.init_transactions)
        return
    if by is Call.JOIN_TRANSACTION:
        faults.always["FindCoordinator"] = Fault(COORDINATOR_LOADING)
        await _until(producer, state, lambda: producer.join_transaction(SOMEBODY))
        return
    await repeated(producer.init_transactions)
    if state is State.READY:
        return
    await producer.begin_transaction()
    if state is State.ABORTABLE_ERROR:
        faults.always["Produce"] = Fault(INVALID_RECORD)
        with pytest.raises(ProduceFailedError):
            await producer.send_and_wait(TOPIC, b"value")
        return
    await repeated(lambda: producer.send_and_wait(TOPIC, b"value"))
    if state is State.PREPARED_TRANSACTION or by is Call.COMPLETE_TRANSACTION:
        prepared = await repeated(producer.prepare_transaction)
    if state is State.FATAL_ERROR:
        faults.always["EndTxn (commit)"] = Fault(NOT_PERMITTED)
        with pytest.raises(AuthorizationError):
            await producer.commit_transaction()
    if state is State.INITIALIZING:
        # The cluster moves to transaction version 2, which needs a new epoch. The client learns of it from the next connection.
        assert upgrade is not None
        upgrade()
        faults.once["EndTxn (commit)"] = faults.once["EndTxn (abort)"] = Fault(None)
        faults.always["InitProducerId"] = Fault(COORDINATOR_LOADING)
        complete = by is Call.COMPLETE_TRANSACTION
        await _until(
            producer, state, lambda: producer.complete_transaction(prepared) if complete else CALLS[by](producer)
        )
    if state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION):
        commit = state is State.COMMITTING_TRANSACTION
        faults.always[f"EndTxn ({'commit' if commit else 'abort'})"] = Fault(COORDINATOR_LOADING)
        if by is Call.COMPLETE_TRANSACTION:
            await _until(producer, state, lambda: producer.complete_transaction(prepared if commit else SOMEBODY))
        else:
            await _until(producer, state, producer.commit_transaction if commit else producer.abort_transaction)


async def _until(producer: TransactionalProducer, state: State, call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call, which must time out, until the producer is in this state; a slow machine may time out earlier."""
    while producer.state is not state:
        with pytest.raises(OperationTimedOutError):
            await call()
