"""A signal interrupts a blocking call just after its end: repeating the call returns its result, and nothing is lost."""

from __future__ import annotations

import faulthandler
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alarms import Alarm, alarm_clock

from stuntbroker.client import CommitFailedError, IllegalStateError, State, blocking
from stuntbroker.client.blocking import TransactionalConsumer, TransactionalProducer
from stuntbroker.client.blocking.handover import Handover
from stuntbroker.fixture.broker import Broker

FOLDER = os.path.dirname(blocking.__file__) + os.sep
pytestmark = pytest.mark.stuntbroker(
    topics={"t": 1}, properties={"transaction.two.phase.commit.enable": True, "transaction.version": 2}
)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Return a function that makes a call and raises Alarm in it, after its result has arrived and before it returns."""
    wait = Handover.wait

    def received_too_late(handover: Handover[Any], timeout_s: float | None) -> Any:
        try:
            return wait(handover, timeout_s)
        finally:
            raise Alarm

    def run(call: Callable[[], Any]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Handover, "wait", received_too_late)
            with pytest.raises(Alarm):
                call()

    return run


@contextmanager
def ready(broker: Broker, **options: Any) -> Iterator[TransactionalProducer]:
    with TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="id", **options) as producer:
        producer.init_transactions()
        yield producer


Interrupted = Callable[[Callable[[], Any]], None]


def test_an_interrupted_commit_may_be_repeated_once(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with ready(stuntbroker) as producer:
        producer.begin_transaction()
        producer.send("t", b"a")
        interrupted(producer.commit_transaction)
        producer.commit_transaction()
        with pytest.raises(IllegalStateError):
            producer.commit_transaction()

    assert stuntbroker.values("t") == [b"a"]


def test_the_result_of_an_interrupted_commit_is_not_that_of_the_next_transaction(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    with ready(stuntbroker) as producer:
        for value in (b"a", b"b"):
            producer.begin_transaction()
            producer.send("t", value)
            interrupted(producer.commit_transaction)
        producer.begin_transaction()
        producer.send("t", b"c")
        producer.commit_transaction()

    assert stuntbroker.values("t") == [b"a", b"b", b"c"]


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_repeated_complete_transaction_returns_the_result_of_the_interrupted_call(
    stuntbroker: Broker, interrupted: Interrupted, is_decided: bool
) -> None:
    with ready(stuntbroker, enable_2pc=True) as producer:
        producer.begin_transaction()
        producer.send("t", b"a")
        interrupted(producer.prepare_transaction)
        state = producer.prepare_transaction()
        decided = state if is_decided else state._replace(producer_epoch=state.producer_epoch + 1)
        interrupted(lambda: producer.complete_transaction(decided))

        assert producer.complete_transaction(str(decided)) is is_decided
        assert producer.complete_transaction(decided) is False

    assert stuntbroker.values("t") == ([b"a"] if is_decided else [])


def test_the_error_of_an_interrupted_call_is_raised_when_it_is_repeated(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    with ready(stuntbroker) as producer:
        producer.begin_transaction()
        stuntbroker.faults.add("Produce", error="INVALID_RECORD", times=1)
        producer.send("t", b"a")
        interrupted(producer.commit_transaction)
        with pytest.raises(CommitFailedError, match="INVALID_RECORD"):
            producer.commit_transaction()
        interrupted(producer.abort_transaction)
        producer.abort_transaction()
        assert producer.state is State.READY

    assert stuntbroker.values("t") == []


def test_an_interrupted_begin_transaction_may_be_repeated_once(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with ready(stuntbroker) as producer:
        interrupted(producer.begin_transaction)
        producer.begin_transaction()
        with pytest.raises(IllegalStateError):
            producer.begin_transaction()
        producer.send("t", b"a")
        producer.commit_transaction()

    assert stuntbroker.values("t") == [b"a"]


def test_a_block_whose_commit_is_interrupted_has_committed(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with ready(stuntbroker) as producer:

        def pay() -> None:
            with producer.transaction():
                producer.send("t", b"a")
                interrupted(producer.commit_transaction)

        pay()
        assert producer.state is State.READY
        with producer.transaction():
            producer.send("t", b"b")

    assert stuntbroker.values("t") == [b"a", b"b"]


def test_an_interrupted_init_transactions_may_be_repeated_once(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as producer:
        interrupted(producer.init_transactions)
        producer.init_transactions()
        with pytest.raises(IllegalStateError):
            producer.init_transactions()


def test_records_that_an_interrupted_call_has_read_are_returned_by_the_next(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    stuntbroker.produce("t", "a", "b", "c")
    with TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="g") as consumer:
        values = [consumer.getone().value]
        interrupted(consumer.getone)
        interrupted(lambda: consumer.getmany(timeout_ms=10_000))
        while len(values) < 3:
            values += [record.value for batch in consumer.getmany(timeout_ms=100).values() for record in batch]

    assert values == [b"a", b"b", b"c"]


def test_records_of_an_interrupted_call_are_dropped_when_the_partition_moves_to_another_member(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    stuntbroker.produce("t", "a", "b")

    def consumer() -> TransactionalConsumer:
        return TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="g")

    with consumer() as first:
        interrupted(first.getone)
        first.unsubscribe()
        with consumer() as second:
            read = [second.getone(), second.getone()]
            second.commit()
        first.subscribe(["t"])
        stuntbroker.produce("t", "c")

        assert ([record.value for record in read], first.getone().value) == ([b"a", b"b"], b"c")


def test_records_read_after_the_interruption_of_a_call_are_returned_by_the_next_call(
    stuntbroker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives_up(handover: Handover[Any], timeout_s: float | None) -> Any:
        raise Alarm

    with TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="g") as consumer:
        consumer.getmany(timeout_ms=10)
        for number in range(5):
            with monkeypatch.context() as patched, pytest.raises(Alarm):
                patched.setattr(Handover, "wait", gives_up)
                consumer.getmany(timeout_ms=10_000)
            stuntbroker.produce("t", *(f"{number}.{each}" for each in range(4)))
            values: list[bytes | None] = []
            while len(values) < 4:
                records = consumer.getmany(timeout_ms=1_000, max_records=1)
                values += [record.value for batch in records.values() for record in batch]

            assert values == [f"{number}.{each}".encode() for each in range(4)]


@pytest.mark.parametrize("seed", range(2))
def test_calls_of_a_producer_may_be_interrupted_at_any_moment_and_repeated(stuntbroker: Broker, seed: int) -> None:
    chance = random.Random(seed)
    interruptions = 0
    faulthandler.dump_traceback_later(60, exit=True)  # pytest-timeout cannot interrupt a thread that waits forever.
    try:
        with ready(stuntbroker) as producer, alarm_clock(FOLDER) as clock:

            def repeated(call: Callable[[], object]) -> None:
                nonlocal interruptions
                while True:
                    try:
                        try:
                            clock(chance.uniform(1e-6, 3e-4))
                            call()
                        finally:
                            clock(0)
                        return
                    except Alarm:
                        interruptions += 1

            for number in range(300):
                repeated(producer.begin_transaction)
                producer.send("t", b"%d" % number)
                repeated(producer.commit_transaction)
                assert producer.state is State.READY
    finally:
        faulthandler.cancel_dump_traceback_later()

    assert interruptions > 100
    assert stuntbroker.values("t") == [b"%d" % number for number in range(300)]


def test_a_consumer_that_is_interrupted_at_any_moment_returns_every_record_once(stuntbroker: Broker) -> None:
    chance = random.Random(3)
    stuntbroker.produce("t", *(str(number) for number in range(900)))
    values: list[int] = []
    interruptions = 0
    reading = TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="g")
    with reading as consumer, alarm_clock(FOLDER) as clock:
        while len(values) < 900:
            try:
                try:
                    clock(chance.uniform(1e-6, 2.5e-4))
                    records = consumer.getmany(timeout_ms=300, max_records=3)
                finally:
                    clock(0)
            except Alarm:
                interruptions += 1
                continue
            values += [int(record.value) for batch in records.values() for record in batch]

    assert values == list(range(900))
    assert interruptions > 100


def test_a_transaction_whose_prepared_state_was_not_returned_is_aborted(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    with ready(stuntbroker, enable_2pc=True) as producer:
        with pytest.raises(RuntimeError), producer.transaction():
            producer.send("t", b"block")
            interrupted(producer.prepare_transaction)
            raise RuntimeError
        assert producer.state is State.READY
        producer.begin_transaction()
        producer.send("t", b"stop")
        interrupted(producer.prepare_transaction)

    assert [each.end for each in stuntbroker.outcomes()] == ["aborted", "aborted"]


def test_a_transaction_whose_prepared_state_was_returned_is_left_to_the_database(
    stuntbroker: Broker, interrupted: Interrupted
) -> None:
    with ready(stuntbroker, enable_2pc=True) as producer:
        with pytest.raises(RuntimeError), producer.transaction():
            producer.send("t", b"a")
            interrupted(producer.prepare_transaction)
            state = producer.prepare_transaction()
            raise RuntimeError
        assert producer.state is State.PREPARED_TRANSACTION
    assert [each.end for each in stuntbroker.outcomes()] == ["open"]

    options = {"bootstrap_servers": stuntbroker.bootstrap, "transactional_id": "id", "enable_2pc": True}
    with TransactionalProducer(**options) as following:
        following.init_transactions(keep_prepared_txn=True)
        assert following.complete_transaction(state) is True
    assert stuntbroker.values("t") == [b"a"]
