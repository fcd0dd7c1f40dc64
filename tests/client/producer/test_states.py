"""Each call in each state of the producer behaves as in the table of calls and states."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import aiokafka.errors
import pytest
from aiokafka.errors import KafkaError
from model_broker import ModelBroker

import stuntbroker
from stuntbroker.client import (
    AuthorizationError,
    CommitFailedError,
    IllegalStateError,
    OperationTimedOutError,
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
from tests.kit.transactions.faults import Fault
from tests.kit.transactions.producer_states import (
    CALLS,
    INVALID_RECORD,
    NOT_PERMITTED,
    Faults,
    Move,
    check_call,
    producer_brought_into,
)

PRODUCER_FENCED, TRANSACTION_ABORTABLE = 90, 120
WITHOUT_REQUESTS = (State.UNINITIALIZED, State.READY, State.PREPARED_TRANSACTION)
"""States in which no request is in flight, so that only a bug of the client can make the producer unusable."""


@asynccontextmanager
async def producer_in(
    state: State, by: Call | None = None, moves: set[Move] | None = None
) -> AsyncIterator[tuple[TransactionalProducer, ModelBroker]]:
    """Yield a producer in this state, with a broker of its own; see `producer_brought_into`."""
    level = 1 if state is State.INITIALIZING and by not in (None, Call.INIT_TRANSACTIONS) else 2
    faults = Faults()
    with ModelBroker(level, faults.script) as broker:

        def upgrade() -> None:
            broker.level = 2

        async with producer_brought_into(
            state, str(broker.address), faults, by, moves=moves, upgrade=upgrade
        ) as producer:
            yield producer, broker


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
async def test_a_call_does_in_a_state_what_the_table_says(state: State) -> None:
    for call in Call:
        outcome = OUTCOMES[state, call]
        async with producer_in(state, by=call if outcome is Outcome.WAIT else None) as (producer, _):
            await check_call(producer, call)


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
                """Return the errors that send and commit raise under a fault."""
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
    for by in (Call.COMMIT_TRANSACTION, Call.ABORT_TRANSACTION):  # These calls need a new epoch afterwards.
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
            await asyncio.sleep(0)  # Each record is sent in its own request.
        are_in_flight.set()
        with suppress(ProducerError):
            await producer.flush()

    for state in WITHOUT_REQUESTS:
        async with producer_in(state, moves=moves) as (producer, _):
            bug = UnexpectedError("a bug of the client")
            producer._session.fail_fatal(bug)
            with pytest.raises(UnexpectedError) as raised:
                await producer.flush()
            assert raised.value is bug

    assert {(before, after) for before in State for after in SUCCESSORS[before]} == moves


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
