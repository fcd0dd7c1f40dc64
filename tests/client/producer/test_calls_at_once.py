"""Concurrent calls of several tasks, and cancelled or timed-out calls: the reported outcomes match the committed records."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from model_broker import ModelBroker

from stuntbroker.client import (
    ApplicationRecoverableError,
    CommitFailedError,
    IllegalStateError,
    OperationTimedOutError,
    PreparedTxnState,
    ProduceFailedError,
    State,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.fixture.broker import Broker
from tests.kit.transactions.faults import Fault, Script
from tests.kit.transactions.repeated import repeated

ILLEGAL_GENERATION, TRANSACTION_ABORTABLE, INVALID_RECORD, LOADING = 22, 120, 87, 14


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def level(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


class Gate:
    """A script that holds the first request of a kind until `open` is called."""

    def __init__(self, kind: str, fault: Fault | None = None) -> None:
        self._kind = kind
        self._fault = fault
        self._open = threading.Event()
        self.is_reached = False

    def __call__(self, request: str, count: int) -> Fault | None:
        if request != self._kind or count > 1:
            return None
        self.is_reached = True
        self._open.wait(20)
        return self._fault

    async def reached(self) -> None:
        """Wait until a request is held."""
        while not self.is_reached:
            await asyncio.sleep(0.001)

    def open(self) -> None:
        """Let the held request continue."""
        self._open.set()


@asynccontextmanager
async def in_transaction(
    level: int, script: Script = lambda request, count: None, **options: Any
) -> AsyncIterator[tuple[TransactionalProducer, ModelBroker]]:
    with ModelBroker(level, script) as broker:
        producer = TransactionalProducer(
            bootstrap_servers=str(broker.address), transactional_id="id", retry_backoff_ms=1, **options
        )
        async with producer:
            await repeated(producer.init_transactions)
            await producer.begin_transaction()
            yield producer, broker


def offsets(producer: TransactionalProducer) -> asyncio.Task[None]:
    return asyncio.create_task(producer.send_offsets_to_transaction({("t", 0): 5}, "group"))


async def turns(count: int = 5) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_commit_waits_for_offsets_and_fails_when_they_are_refused(level: int) -> None:
    gate = Gate("TxnOffsetCommit", Fault(ILLEGAL_GENERATION))
    async with in_transaction(level, gate) as (producer, broker):
        await producer.send_and_wait("t", b"record", partition=0)
        sending = offsets(producer)
        await gate.reached()
        commit = asyncio.create_task(producer.commit_transaction())
        await turns()
        gate.open()
        with pytest.raises(TransactionAbortableError):
            await sending
        with pytest.raises(CommitFailedError):
            await commit
        assert broker.counts["EndTxn (commit)"] == 0
        await producer.abort_transaction()
        assert (broker.committed, broker.is_ongoing) == ([], False)
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert broker.committed == [b"next"]


@pytest.mark.parametrize("is_applied", [True, False])
@pytest.mark.parametrize("kind", ["AddPartitionsToTxn", "AddOffsetsToTxn"])
async def test_an_abort_ends_the_transaction_that_an_in_flight_request_begins(kind: str, is_applied: bool) -> None:
    """Otherwise, the coordinator would have an open transaction that the producer does not know of."""
    gate = Gate(kind, None if is_applied else Fault(None))
    async with in_transaction(1, gate) as (producer, broker):
        if kind == "AddPartitionsToTxn":
            await producer.send("t", b"record", partition=0)
        else:
            sending = offsets(producer)
        await gate.reached()
        abort = asyncio.create_task(producer.abort_transaction())
        await turns()
        gate.open()
        await abort
        assert broker.is_ongoing is False
        if kind == "AddOffsetsToTxn":
            with pytest.raises(IllegalStateError):
                await sending
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert broker.committed == [b"next"]


async def test_a_commit_includes_offsets_whose_request_is_in_flight() -> None:
    gate = Gate("AddOffsetsToTxn")
    async with in_transaction(1, gate) as (producer, broker):
        sending = offsets(producer)
        await gate.reached()
        commit = asyncio.create_task(producer.commit_transaction())
        await turns()
        gate.open()
        await commit
        await sending
        assert (broker.committed_offset, broker.is_ongoing) == (5, False)
        async with producer.transaction():
            await producer.send_offsets_to_transaction({("t", 0): 9}, "group")

    assert (broker.committed_offset, broker.is_ongoing) == (9, False)


async def test_a_record_fails_when_the_producer_is_stopped_right_after_send(level: int) -> None:
    async with in_transaction(level) as (producer, _):
        record = await producer.send("t", b"value", partition=0)
        await producer.stop(leave_open=True)
        assert isinstance(record.exception(), ProduceFailedError)


async def test_a_waiting_send_raises_when_the_producer_is_closed(level: int) -> None:
    async with in_transaction(level) as (producer, broker):
        gate = threading.Event()
        broker.handlers[3] = lambda request, version: gate.wait(20) and None
        sending = asyncio.create_task(producer.send("unknown", b"value"))
        await turns()
        await producer.stop(leave_open=True)
        with pytest.raises(IllegalStateError, match="was closed meanwhile"):
            await sending
        gate.set()


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
@pytest.mark.parametrize("kind", ["AddOffsetsToTxn", "TxnOffsetCommit"])
async def test_cancelled_or_timed_out_offsets_fail_the_transaction_but_not_the_producer(
    level: int, kind: str, how: str
) -> None:
    if (level, kind) == (2, "AddOffsetsToTxn"):
        kind = "TxnOffsetCommit"  # The only request for offsets under version 2.
    gate = Gate(kind)
    async with in_transaction(level, gate, max_block_ms=100 if how == "timed out" else 9000) as (producer, broker):
        sending = offsets(producer)
        await gate.reached()
        if how == "cancelled":
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        else:
            with pytest.raises(TransactionAbortableError):
                await sending
        gate.open()
        await repeated(producer.abort_transaction)
        assert broker.is_ongoing is False
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert (broker.committed, broker.committed_offset) == ([b"next"], 0)


@pytest.mark.parametrize("what", ["offsets", "a record"])
async def test_nothing_is_prepared_before_everything_is_written(what: str, level: int) -> None:
    gate = (
        Gate("TxnOffsetCommit", Fault(ILLEGAL_GENERATION))
        if what == "offsets"
        else Gate("Produce", Fault(INVALID_RECORD))
    )
    async with in_transaction(level, gate, enable_2pc=True) as (producer, broker):
        if what == "offsets":
            sending = offsets(producer)
        else:
            await producer.send("t", b"refused", partition=0)
        await gate.reached()
        prepare = asyncio.create_task(producer.prepare_transaction())
        await turns()
        for call in (
            lambda: producer.send("t", b"late", partition=0),
            lambda: producer.send_offsets_to_transaction({("t", 0): 5}, "group"),
            producer.commit_transaction,
        ):
            with pytest.raises(IllegalStateError, match="prepare_transaction"):
                await call()
        gate.open()
        with pytest.raises(TransactionAbortableError):
            await prepare
        if what == "offsets":
            with pytest.raises(TransactionAbortableError):
                await sending
        assert producer.state is State.ABORTABLE_ERROR
        await producer.abort_transaction()
        assert broker.committed == []


async def test_a_transaction_that_cannot_be_prepared_in_time_has_to_be_aborted(level: int) -> None:
    gate = Gate("Produce")
    async with in_transaction(level, gate, enable_2pc=True, max_block_ms=50) as (producer, broker):
        await producer.send("t", b"slow", partition=0)
        with pytest.raises(TransactionAbortableError, match=r"prepare_transaction.* has not ended"):
            await producer.prepare_transaction()
        gate.open()
        await repeated(producer.abort_transaction)
        assert (broker.committed, broker.is_ongoing) == ([], False)


@pytest.mark.parametrize("code", [TRANSACTION_ABORTABLE, 48, 90])
async def test_a_prepared_transaction_whose_commit_is_refused_is_not_aborted(code: int) -> None:
    """The database has committed, so a new instance must recover the transaction (KeepPreparedTxn) and commit it."""

    def script(request: str, count: int) -> Fault | None:
        return Fault(code) if (request, count) == ("EndTxn (commit)", 1) else None

    async with in_transaction(2, script, enable_2pc=True) as (producer, broker):
        await producer.send("t", b"record", partition=0)
        state = await repeated(producer.prepare_transaction)
        with pytest.raises(ApplicationRecoverableError, match="keep_prepared_txn=True"):
            await producer.complete_transaction(state)
        await producer.stop()
        assert broker.counts["EndTxn (abort)"] == 0
        assert broker.is_ongoing is True


@pytest.mark.parametrize("then", ["repeat", "abort"])
async def test_after_a_cancelled_prepare_the_producer_can_prepare_or_abort(level: int, then: str) -> None:
    outcomes = set()
    async with in_transaction(level, enable_2pc=True) as (producer, broker):
        for turns_before in range(12):
            await producer.send_and_wait("t", b"%d" % turns_before, partition=0)
            preparing = asyncio.create_task(producer.prepare_transaction())
            await turns(turns_before)
            preparing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await preparing
            outcomes.add((preparing.cancelled(), producer.state is State.PREPARED_TRANSACTION))
            if then == "repeat" and preparing.cancelled():
                assert await producer.prepare_transaction() == producer.identity
            await producer.abort_transaction()
            await producer.begin_transaction()
        assert broker.committed == []
    assert outcomes >= {(True, False), (False, True)}


async def pay(producer: TransactionalProducer, ready: asyncio.Event, states: list[PreparedTxnState]) -> None:
    """Prepare a transaction, and append its state to `states`."""
    async with producer.transaction():
        await producer.send_and_wait("t", b"x", partition=0)
        ready.set()
        states.append(await producer.prepare_transaction())
        await asyncio.sleep(1)


async def test_a_block_that_is_cancelled_while_it_prepares_leaves_no_transaction_open(level: int) -> None:
    async with in_transaction(level, enable_2pc=True) as (producer, broker):
        await producer.abort_transaction()
        for turns_before in range(12):
            states: list[PreparedTxnState] = []
            ready = asyncio.Event()
            paying = asyncio.create_task(pay(producer, ready, states))
            await ready.wait()
            await turns(turns_before)
            paying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await paying
            assert producer.state is (State.PREPARED_TRANSACTION if states else State.READY)
            if states:
                await producer.abort_transaction()
        assert (broker.committed, broker.is_ongoing) == ([], False)


async def test_calls_in_another_event_loop_are_refused(level: int) -> None:
    with ModelBroker(level) as broker:
        producer = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id", enable_2pc=True)
        await producer.start()
        await producer.init_transactions()
        calls = (producer.begin_transaction, producer.commit_transaction, producer.flush, producer.stop)
        for call in (*calls, producer.abort_transaction, producer.prepare_transaction):
            with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was started"):
                await asyncio.to_thread(asyncio.run, call())
        async with producer.transaction():
            await producer.send("t", b"x", partition=0)
        await producer.stop()
        assert broker.committed == [b"x"]


async def test_records_from_another_event_loop_are_refused_and_change_nothing(level: int) -> None:
    with ModelBroker(level) as broker:
        producer = await begin(broker)
        batch = producer.create_batch()
        batch.append(timestamp=None, key=None, value=b"x")
        for call in (
            lambda: producer.send("t", b"x", partition=0),  # Begins a batch, unless one is open.
            lambda: producer.send_batch(batch, "t", partition=0),
            lambda: producer.send("unknown", b"x"),
            lambda: producer.partitions_for("unknown"),
        ):
            with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was started"):
                await asyncio.to_thread(asyncio.run, call())
        await producer.send("t", b"from its own", partition=0)
        with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was started"):
            await asyncio.to_thread(asyncio.run, producer.send("t", b"x", partition=0))
        await producer.commit_transaction()
        await producer.stop()
        assert broker.committed == [b"from its own"]


def test_records_are_refused_after_the_event_loop_of_the_producer_has_ended(level: int) -> None:
    with ModelBroker(level) as broker, asyncio.Runner() as first:
        producer = first.run(begin(broker))

        async def send() -> None:
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"x")
            for call in (
                lambda: producer.send("t", b"x", partition=0),
                lambda: producer.send_batch(batch, "t", partition=0),
            ):
                for _ in range(2):
                    with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was started"):
                        await call()

        asyncio.run(send())
        first.run(producer.commit_transaction())
        first.run(producer.stop())
        assert broker.committed == []


async def begin(broker: ModelBroker) -> TransactionalProducer:
    """Return a producer that has begun a transaction and sent no record."""
    producer = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id")
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.partitions_for("t")
    return producer


async def test_complete_transaction_accepts_the_text_of_a_state_and_no_other_type(level: int) -> None:
    async with in_transaction(level, enable_2pc=True) as (producer, broker):
        await producer.send("t", b"record", partition=0)
        text = str(await producer.prepare_transaction())
        for wrong, error in ((None, TypeError), (5, TypeError), ("text", ValueError)):
            with pytest.raises(error):
                await producer.complete_transaction(wrong)  # type: ignore[arg-type]
        assert producer.state is State.PREPARED_TRANSACTION
        assert await producer.complete_transaction(text) is True

    assert broker.committed == [b"record"]


async def test_a_closed_producer_says_so_even_if_a_call_had_not_ended(level: int) -> None:
    gate = Gate("EndTxn (commit)")
    async with in_transaction(level, gate, max_block_ms=50) as (producer, _):
        await producer.send("t", b"record", partition=0)
        with pytest.raises(OperationTimedOutError):
            await producer.commit_transaction()
        await producer.stop(leave_open=True)
        gate.open()
        for call in (producer.commit_transaction, producer.flush, lambda: producer.send("t", b"record")):
            with pytest.raises(IllegalStateError, match="is not started, or closed"):
                await call()


async def test_a_call_that_timed_out_can_be_repeated_only_with_the_same_argument(level: int) -> None:
    gate = Gate("EndTxn (commit)")
    async with in_transaction(level, gate, enable_2pc=True, max_block_ms=50) as (producer, broker):
        await producer.send("t", b"record", partition=0)
        state = await repeated(producer.prepare_transaction)
        with pytest.raises(OperationTimedOutError):
            await producer.complete_transaction(state)
        with pytest.raises(IllegalStateError, match="another argument"):
            await producer.complete_transaction(PreparedTxnState(1, 1))
        gate.open()
        assert await repeated(lambda: producer.complete_transaction(state)) is True

    assert broker.committed == [b"record"]


@pytest.mark.parametrize("name", ["EndTxn (commit)", "Produce"])
async def test_a_time_out_error_names_the_last_error_of_the_broker(name: str, level: int) -> None:
    def script(request: str, count: int) -> Fault | None:
        return Fault(LOADING) if request == name and not is_over else None

    is_over = False
    async with in_transaction(level, script, max_block_ms=100) as (producer, _):
        await producer.send("t", b"record", partition=0)
        with pytest.raises(OperationTimedOutError, match="COORDINATOR_LOAD_IN_PROGRESS") as raised:
            await producer.commit_transaction()
        assert getattr(raised.value.__cause__, "code", None) == LOADING
        is_over = True


async def test_stop_aborts_when_a_commit_that_timed_out_fails_after_all(level: int) -> None:
    gate = Gate("Produce", Fault(INVALID_RECORD))
    async with in_transaction(level, gate, max_block_ms=200) as (producer, broker):
        await producer.send("t", b"refused", partition=0)
        await gate.reached()
        with pytest.raises(OperationTimedOutError):
            await producer.commit_transaction()
        stopping = asyncio.create_task(producer.stop())
        await turns()
        gate.open()
        await stopping
        assert broker.is_ongoing is False


async def test_a_cancelled_stop_continues_and_a_second_stop_waits_for_it(level: int) -> None:
    before = asyncio.all_tasks()
    gate = Gate("EndTxn (abort)")
    async with in_transaction(level, gate) as (producer, broker):
        await producer.send_and_wait("t", b"record", partition=0)
        stopping = asyncio.create_task(producer.stop())
        await gate.reached()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        gate.open()
        await producer.stop()
        assert (producer.state, broker.is_ongoing) == (State.CLOSED, False)
    await turns()
    assert asyncio.all_tasks() == before


async def test_a_waiting_init_transactions_raises_when_the_producer_is_closed(level: int) -> None:
    gate = Gate("InitProducerId")
    with ModelBroker(level, gate) as broker:
        producer = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id")
        await producer.start()
        starting = asyncio.create_task(producer.init_transactions())
        await gate.reached()
        await producer.stop()
        with pytest.raises(IllegalStateError, match="was closed meanwhile"):
            await starting
        gate.open()


async def test_a_producer_is_started_once(level: int) -> None:
    before = asyncio.all_tasks()
    with ModelBroker(level) as broker:
        producer = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id")
        results = await asyncio.gather(producer.start(), producer.start(), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), IllegalStateError]
        await producer.stop()

        other = TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id")
        starting = asyncio.create_task(other.start())
        await turns(2)
        await other.stop()
        with pytest.raises(IllegalStateError, match="were stopped meanwhile"):
            await starting
    await turns()
    assert asyncio.all_tasks() == before


async def test_partitions_for_needs_an_open_producer_and_obeys_max_block_ms(level: int) -> None:
    with ModelBroker(level) as broker:
        producer = TransactionalProducer(
            bootstrap_servers=str(broker.address), transactional_id="id", max_block_ms=50, retry_backoff_ms=1
        )
        with pytest.raises(IllegalStateError):
            await producer.partitions_for("t")
        async with producer:
            assert await repeated(lambda: producer.partitions_for("t")) == {0, 1}
            gate = threading.Event()
            original: Callable[..., Any] = broker.handlers[3]

            def held(request: Any, version: int) -> Any:
                gate.wait(20)
                return original(request, version)

            broker.handlers[3] = held
            with pytest.raises(OperationTimedOutError):
                await producer.partitions_for("unknown")
            gate.set()
        with pytest.raises(IllegalStateError):
            await producer.partitions_for("t")


@pytest.mark.parametrize("turns_before", range(6))
async def test_a_cancelled_flush_raises_cancelled_error_although_its_records_are_written(
    turns_before: int, level: int
) -> None:
    """asyncio.wait_for of Python 3.11 would return the result instead, and ignore the cancellation."""
    gate = Gate("Produce")
    async with in_transaction(level, gate) as (producer, _):
        record = await producer.send("t", b"x", partition=0)
        flushing = asyncio.create_task(producer.flush())
        await gate.reached()
        gate.open()
        await record
        for _ in range(turns_before):
            await asyncio.sleep(0)
        if not flushing.done():
            flushing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await flushing
        await producer.abort_transaction()


async def test_a_cancelled_commit_continues_and_must_be_called_again(level: int) -> None:
    gate = Gate("EndTxn (commit)")
    async with in_transaction(level, gate) as (producer, broker):
        await producer.send_and_wait("t", b"x", partition=0)

        async def commit() -> None:
            await producer.commit_transaction()

        committing = asyncio.create_task(commit())
        await gate.reached()
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        with pytest.raises(IllegalStateError, match="has not ended; call that again"):
            await producer.begin_transaction()
        gate.open()
        while producer.state is not State.READY:
            await asyncio.sleep(0.001)
        await turns()
        with pytest.raises(IllegalStateError, match="has ended, and its result was not returned yet; call that again"):
            await producer.begin_transaction()
        await producer.commit_transaction()
        await producer.begin_transaction()
        assert broker.committed == [b"x"]
        await producer.abort_transaction()


async def test_a_shared_transaction_is_aborted_by_the_close_of_its_first_producer_only(
    stuntbroker: Broker,
) -> None:
    stuntbroker.create_topic("t", 2)
    options: dict[str, Any] = {"bootstrap_servers": stuntbroker.bootstrap, "transactional_id": "id"}
    async with TransactionalProducer(**options) as first:
        await first.init_transactions()
        await first.begin_transaction()
        await first.send_and_wait("t", b"one", partition=0)
        identity = first.share_transaction()
        async with TransactionalProducer(**options) as second:
            await second.join_transaction(identity)
            await second.send_and_wait("t", b"two", partition=1)
        assert [each.state for each in stuntbroker.transactions()] == ["Ongoing"]
    assert [each.state for each in stuntbroker.transactions()] == ["CompleteAbort"]


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="eager tasks came with Python 3.12")
@pytest.mark.parametrize("level", [1, 2])
async def test_calls_work_with_eager_tasks(level: int) -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    async with in_transaction(level) as (producer, broker):
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"value")
    assert broker.committed == [b"value"]


async def test_a_commit_that_timed_out_is_repeated_in_its_own_event_loop_only() -> None:
    gate = Gate("EndTxn (commit)")
    async with in_transaction(2, gate, max_block_ms=200) as (producer, broker):
        await producer.send("t", b"x")
        with pytest.raises(OperationTimedOutError):
            await producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="belongs to the event loop in which it was started"):
            await asyncio.to_thread(lambda: asyncio.run(producer.commit_transaction()))
        gate.open()
        await repeated(producer.commit_transaction)
        assert broker.committed == [b"x"]
