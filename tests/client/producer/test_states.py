"""What every call does in every state: each cell of the table, tried on a producer that was brought into the state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import aiokafka.errors
import pytest
from aiokafka.errors import KafkaError
from model_broker import Fault, ModelBroker

import stuntbroker
from stuntbroker.client import (
    AuthorizationError,
    CommitFailedError,
    IllegalStateError,
    OperationTimedOutError,
    PreparedTxnState,
    ProduceFailedError,
    ProducerError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalProducer,
    UnexpectedError,
)
from stuntbroker.client.producer.calls import Calls
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import OUTCOMES, SUCCESSORS, Call, Outcome, State, diagram
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from tests.kit.transactions.repeated import repeated

COORDINATOR_LOADING, INVALID_RECORD, NOT_PERMITTED, PRODUCER_FENCED, TRANSACTION_ABORTABLE = 14, 87, 53, 90, 120
SOMEBODY = PreparedTxnState(1, 1)

CALLS: dict[Call, Callable[[TransactionalProducer], Awaitable[object]]] = {
    Call.INIT_TRANSACTIONS: lambda producer: producer.init_transactions(),
    Call.JOIN_TRANSACTION: lambda producer: producer.join_transaction(SOMEBODY),
    Call.SHARE_TRANSACTION: lambda producer: _share(producer),
    Call.BEGIN_TRANSACTION: lambda producer: producer.begin_transaction(),
    Call.SEND: lambda producer: producer.send("t", b"value"),
    Call.FLUSH: lambda producer: producer.flush(),
    Call.SEND_OFFSETS: lambda producer: producer.send_offsets_to_transaction({("t", 0): 1}, "group"),
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
BUGS = {
    (State.UNINITIALIZED, State.FATAL_ERROR),
    (State.READY, State.FATAL_ERROR),
    (State.PREPARED_TRANSACTION, State.FATAL_ERROR),
}
"""Transitions that only a mistake of this client can cause: no request is in flight in these states."""
Move = tuple[State, State]


async def _share(producer: TransactionalProducer) -> object:
    return producer.share_transaction()


ERRORS: dict[Outcome, type[BaseException]] = {
    Outcome.WAIT: OperationTimedOutError,
    Outcome.ABORTABLE: TransactionAbortableError,
    Outcome.COMMIT_FAILED: CommitFailedError,
    Outcome.FATAL: AuthorizationError,
    Outcome.ILLEGAL: IllegalStateError,
}


@asynccontextmanager
async def producer_in(
    state: State, by: Call | None = None, moves: set[Move] | None = None
) -> AsyncIterator[tuple[TransactionalProducer, ModelBroker]]:
    """A producer in this state; in one that lasts only as long as a call, because of the call `by`, which timed out.

    `moves`: gets the transitions that the producer makes.
    """
    faults: dict[str, Fault] = {}
    level = 1 if state is State.INITIALIZING and by not in (None, Call.INIT_TRANSACTIONS) else 2
    with ModelBroker(
        level, lambda request, count: faults.pop(f"{request} once", None) or faults.get(request)
    ) as broker:
        producer = TransactionalProducer(
            bootstrap_servers=str(broker.address),
            transactional_id="id",
            enable_2pc=True,
            retry_backoff_ms=1,
            max_block_ms=150
            if state in (State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
            else 9000,
        )
        if moves is not None:
            producer._session.on_move = lambda before, after, error: moves.add((before, after))
        await producer.start()
        try:
            await _bring_into(producer, broker, state, by, faults)
            assert producer.state is state
            yield producer, broker
        finally:
            faults.clear()
            await producer.stop()


async def _bring_into(
    producer: TransactionalProducer, broker: ModelBroker, state: State, by: Call | None, faults: dict[str, Fault]
) -> None:
    if state is State.CLOSED:
        await producer.stop()
        return
    if state is State.UNINITIALIZED:
        return
    if state is State.INITIALIZING and by in (None, Call.INIT_TRANSACTIONS):
        faults["InitProducerId"] = Fault(COORDINATOR_LOADING)
        await _until(producer, state, producer.init_transactions)
        return
    if by is Call.JOIN_TRANSACTION:
        faults["FindCoordinator"] = Fault(COORDINATOR_LOADING)
        await _until(producer, state, lambda: producer.join_transaction(SOMEBODY))
        return
    await repeated(producer.init_transactions)
    if state is State.READY:
        return
    await producer.begin_transaction()
    if state is State.ABORTABLE_ERROR:
        faults["Produce"] = Fault(INVALID_RECORD)
        with pytest.raises(ProduceFailedError):
            await producer.send_and_wait("t", b"value")
        return
    await repeated(lambda: producer.send_and_wait("t", b"value"))
    if state is State.PREPARED_TRANSACTION or by is Call.COMPLETE_TRANSACTION:
        prepared = await repeated(producer.prepare_transaction)
    if state is State.FATAL_ERROR:
        faults["EndTxn (commit)"] = Fault(NOT_PERMITTED)
        with pytest.raises(AuthorizationError):
            await producer.commit_transaction()
    if state is State.INITIALIZING:
        # The cluster goes on to transaction version 2, which begins with a new epoch. The next connection learns of it.
        broker.level = 2
        faults["EndTxn (commit) once"] = faults["EndTxn (abort) once"] = Fault(None)
        faults["InitProducerId"] = Fault(COORDINATOR_LOADING)
        complete = by is Call.COMPLETE_TRANSACTION
        await _until(
            producer, state, lambda: producer.complete_transaction(prepared) if complete else CALLS[by](producer)
        )
    if state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION):
        commit = state is State.COMMITTING_TRANSACTION
        faults[f"EndTxn ({'commit' if commit else 'abort'})"] = Fault(COORDINATOR_LOADING)
        if by is Call.COMPLETE_TRANSACTION:
            await _until(producer, state, lambda: producer.complete_transaction(prepared if commit else SOMEBODY))
        else:
            await _until(producer, state, producer.commit_transaction if commit else producer.abort_transaction)


async def _until(producer: TransactionalProducer, state: State, call: Callable[[], Awaitable[object]]) -> None:
    """Make a call that ends by a time-out in this state: on a slow machine it may end so before."""
    while producer.state is not state:
        with pytest.raises(OperationTimedOutError):
            await call()


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
async def test_a_call_does_in_a_state_what_the_table_says(state: State) -> None:
    for call in Call:
        outcome = OUTCOMES[state, call]
        async with producer_in(state, by=call if outcome is Outcome.WAIT else None) as (producer, _):
            if outcome is Outcome.RUN:
                await CALLS[call](producer)
                assert producer.state is STATE_AFTER.get(call, state)
            else:
                with pytest.raises(ERRORS[outcome]) as raised:
                    await CALLS[call](producer)
                assert type(raised.value) is ERRORS[outcome], (call, raised.value)
                assert producer.state is state


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED], ids=lambda state: state.name)
async def test_a_producer_can_be_closed_in_every_state(state: State) -> None:
    async with producer_in(state) as (producer, _):
        await producer.stop(leave_open=True)

        assert producer.state is State.CLOSED


@pytest.mark.parametrize("call", Call, ids=lambda call: call.value)
async def test_no_call_works_before_the_start_or_after_the_end(call: Call) -> None:
    with ModelBroker(2) as broker:
        producer = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id", enable_2pc=True)
        with pytest.raises(IllegalStateError):
            await CALLS[call](producer)
        for create in (producer.create_batch, lambda: producer.send_batch(b"", "t", partition=0)):
            with pytest.raises(IllegalStateError):
                created = create()
                if not isinstance(created, Awaitable):
                    raise AssertionError("it worked")
                await created
        async with producer:
            assert producer.state is State.UNINITIALIZED
        with pytest.raises(IllegalStateError):
            await CALLS[call](producer)


async def test_a_commit_that_timed_out_may_be_repeated_and_nothing_else() -> None:
    async with producer_in(State.COMMITTING_TRANSACTION) as (producer, broker):
        with pytest.raises(IllegalStateError, match="commit_transaction\\(\\) of producer 'id' has not ended"):
            await producer.abort_transaction()
        broker.script = lambda request, count: None

        await producer.commit_transaction()

        assert producer.state is State.READY
        assert broker.committed == [b"value"]


async def test_an_abort_that_timed_out_may_be_repeated() -> None:
    async with producer_in(State.ABORTING_TRANSACTION) as (producer, broker):
        broker.script = lambda request, count: None

        await producer.abort_transaction()

        assert producer.state is State.READY
        assert broker.committed == []


async def test_an_abortable_error_wraps_its_cause_once_and_a_fatal_error_is_raised_as_it_is() -> None:
    async with producer_in(State.ABORTABLE_ERROR) as (producer, _):
        with pytest.raises(CommitFailedError) as abortable:
            await producer.commit_transaction()
        cause = abortable.value.__cause__
        assert cause is not None and getattr(cause, "code", None) == INVALID_RECORD
        assert cause.__cause__ is None

    async with producer_in(State.FATAL_ERROR) as (producer, _):
        with pytest.raises(AuthorizationError) as fatal:
            await producer.begin_transaction()
        assert fatal.value.__cause__ is None


@contextmanager
def under_fault(broker: Broker, request: str, **fault: Any) -> Iterator[None]:
    added = broker.faults.add(request, **fault)
    try:
        yield
    finally:
        added.remove()


async def test_no_error_wraps_an_error_that_wraps_another() -> None:
    def raised_by(error: BaseException) -> list[str]:
        """The names of the error's class and of those that it wraps."""
        return [type(error).__name__, *(raised_by(error.__cause__) if error.__cause__ is not None else ())]

    with stuntbroker.broker(topics={"t": 1}) as broker:
        options = {"delivery_timeout_ms": 300, "max_block_ms": 1_000, "request_timeout_ms": 250, "retry_backoff_ms": 20}
        async with TransactionalProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="id", **options
        ) as producer:
            await producer.init_transactions()

            async def errors(request: str, topic: str = "t", **fault: Any) -> list[list[str]]:
                """What the calls of a transaction raise under a fault."""
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"1")
                raised = []
                with under_fault(broker, request, **fault):
                    for call in (lambda: producer.send_and_wait(topic, b"2"), producer.commit_transaction):
                        try:
                            await call()
                        except (KafkaError, IllegalStateError) as error:
                            raised.append(raised_by(error))
                if producer.state is not State.READY:
                    await producer.abort_transaction()
                return raised

            disconnected = await errors("Produce", close=True)
            assert [names[0] for names in disconnected] == ["ProduceFailedError", "CommitFailedError"]
            assert all(names[1:] in (["DisconnectedError"], ["ProducerError"]) for names in disconnected)
            refused = await errors("Metadata", "secret", error="TOPIC_AUTHORIZATION_FAILED")
            assert [names[0] for names in refused] == ["TransactionAbortableError", "CommitFailedError"]
            assert all(len(names) == 2 for names in refused)
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"3")
            with (
                under_fault(broker, "EndTxn", error="COORDINATOR_LOAD_IN_PROGRESS"),
                pytest.raises(OperationTimedOutError) as timed_out,
            ):
                await producer.commit_transaction()
            assert raised_by(timed_out.value) == ["OperationTimedOutError", "ResponseError"]
            await producer.commit_transaction()

            await producer.begin_transaction()
            with (
                under_fault(broker, "TxnOffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS"),
                pytest.raises(TransactionAbortableError) as without_offsets,
            ):
                await producer.send_offsets_to_transaction({("t", 0): 1}, "group")
            assert raised_by(without_offsets.value) == ["TransactionAbortableError", "ResponseError"]
            assert "has not ended within 1 s" in str(without_offsets.value)
            await producer.abort_transaction()


def test_handlers_for_aiokafka_s_errors_match_ours() -> None:
    assert issubclass(ProducerFencedError, aiokafka.errors.ProducerFenced)
    assert issubclass(OperationTimedOutError, aiokafka.errors.KafkaTimeoutError)
    assert issubclass(IllegalStateError, aiokafka.errors.IllegalOperation)
    assert not issubclass(IllegalStateError, KafkaError)


async def test_after_an_abortable_error_the_same_producer_commits_the_next_transaction() -> None:
    async with producer_in(State.ABORTABLE_ERROR) as (producer, broker):
        broker.script = lambda request, count: None
        await producer.abort_transaction()

        async with producer.transaction():
            await producer.send("t", b"next")

        assert broker.committed == [b"next"]


def test_every_state_can_be_reached_and_left() -> None:
    reached, queue = {State.UNINITIALIZED}, [State.UNINITIALIZED]
    while queue:
        following = SUCCESSORS[queue.pop()] - reached
        reached |= following
        queue += following

    assert reached == set(State)
    assert [state for state, successors in SUCCESSORS.items() if not successors] == [State.CLOSED]


@pytest.mark.parametrize("before", State, ids=lambda state: state.name)
def test_a_session_makes_only_the_transitions_of_the_table(before: State) -> None:
    for after in State:
        seen: list[tuple[State, State]] = []
        session = Session("id")
        session.state = before
        session.on_move = lambda old, new, error, seen=seen: seen.append((old, new))
        if after in SUCCESSORS[before]:
            session.move(after)
            assert (session.state, seen) == (after, [(before, after)])
        else:
            with pytest.raises(IllegalStateError, match=f"no transition from {before.name} to {after.name}"):
                session.move(after)
            assert (session.state, seen) == (before, [])


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
async def test_an_unexpected_exception_is_fatal_in_every_state_except_closed(state: State) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("a mistake of this client")

    session = Session("id")
    session.state = state
    calls = Calls(session, max_block_ms=1_000)
    with pytest.raises(UnexpectedError, match="a mistake of this client") as raised:
        await calls.guard(broken())

    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert session.state is (State.CLOSED if state is State.CLOSED else State.FATAL_ERROR)


async def test_a_producer_makes_every_transition_of_the_table() -> None:
    moves: set[Move] = set()

    def failing(broker: ModelBroker, request: str, *codes: int) -> None:
        left = list(codes)
        broker.script = lambda name, count: Fault(left.pop(0)) if name == request and left else None

    for state in State:
        for call in Call:
            if OUTCOMES[state, call] is Outcome.RUN:
                async with producer_in(state, moves=moves) as (producer, _):
                    await CALLS[call](producer)
        if state is not State.CLOSED:
            async with producer_in(state, moves=moves) as (producer, _):
                await producer.stop(leave_open=True)
    for by in (Call.COMMIT_TRANSACTION, Call.ABORT_TRANSACTION):  # A new epoch is needed after them.
        async with producer_in(State.INITIALIZING, by=by, moves=moves):
            pass
    for code in (TRANSACTION_ABORTABLE, NOT_PERMITTED):
        async with producer_in(State.UNINITIALIZED, moves=moves) as (producer, broker):
            failing(broker, "InitProducerId", code)
            with pytest.raises(ProducerError):
                await producer.init_transactions()
    async with producer_in(State.UNINITIALIZED, moves=moves) as (producer, broker):
        broker.handlers[22] = lambda request, version: InitProducerIdResponse(0, 0, 4000, 1, 4000, 0)
        await producer.init_transactions(keep_prepared_txn=True)
    for request, call in (
        ("Produce", Call.FLUSH),
        ("EndTxn (commit)", Call.COMMIT_TRANSACTION),
        ("EndTxn (abort)", Call.ABORT_TRANSACTION),
    ):
        for code in (INVALID_RECORD if call is Call.FLUSH else TRANSACTION_ABORTABLE, NOT_PERMITTED):
            async with producer_in(State.IN_TRANSACTION, moves=moves) as (producer, broker):
                failing(broker, request, code)
                await producer.send("t", b"value")
                with suppress(ProducerError):
                    await CALLS[call](producer)
    async with producer_in(State.IN_TRANSACTION, moves=moves) as (producer, broker):
        codes, are_in_flight = [INVALID_RECORD, PRODUCER_FENCED], threading.Event()
        broker.script = lambda name, count: Fault(codes.pop(0)) if codes and are_in_flight.wait(20) else None
        for partition in range(2):
            await producer.send("t", b"value", partition=partition)
            await asyncio.sleep(0)  # Each is sent in a request of its own.
        are_in_flight.set()
        with suppress(ProducerError):
            await producer.flush()

    assert {(before, after) for before in State for after in SUCCESSORS[before]} - moves == BUGS


def test_the_diagram_has_every_transition_but_those_that_all_states_have() -> None:
    lines = list(diagram())

    for state, successors in SUCCESSORS.items():
        for successor in State:
            drawn = f"    {state.name} --> {successor.name}" in lines
            assert drawn is (successor in successors - {State.FATAL_ERROR, State.CLOSED})


async def test_stop_aborts_a_transaction_that_is_open_and_leaves_a_prepared_transaction_alone() -> None:
    async with producer_in(State.IN_TRANSACTION) as (producer, broker):
        await producer.stop()
        assert broker.counts["EndTxn (abort)"] == 1

    async with producer_in(State.PREPARED_TRANSACTION) as (producer, broker):
        await producer.stop()
        assert broker.counts["EndTxn (abort)"] == 0


async def test_a_block_commits_at_its_end_and_aborts_when_it_raises() -> None:
    async with producer_in(State.READY) as (producer, broker):
        async with producer.transaction():
            await producer.send("t", b"committed")
        with suppress(ValueError):
            async with producer.transaction():
                await producer.send_and_wait("t", b"aborted")
                raise ValueError

        assert producer.state is State.READY
        assert broker.committed == [b"committed"]
