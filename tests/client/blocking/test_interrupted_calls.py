"""A signal interrupts a blocking call just when it has ended: repeating the call tells how it has ended, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from stuntbroker.client import CommitFailedError, IllegalStateError, State
from stuntbroker.client.blocking import TransactionalConsumer, TransactionalProducer
from stuntbroker.fixture.broker import Broker

pytestmark = pytest.mark.stuntbroker(
    topics={"t": 1}, properties={"transaction.two.phase.commit.enable": True, "transaction.version": 2}
)


class Alarm(Exception):
    """What a signal handler raises."""


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Runs a call, whose result reaches the thread that waits too late: the signal was there before."""
    result = Future.result

    def received_too_late(future: Future[Any], timeout_s: float | None = None) -> Any:
        try:
            return result(future, timeout_s)
        finally:
            raise Alarm

    def run(call: Callable[[], Any]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Future, "result", received_too_late)
            with pytest.raises(Alarm):
                call()

    return run


@contextmanager
def ready(broker: Broker, **options: Any) -> Iterator[TransactionalProducer]:
    with TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="id", **options) as producer:
        producer.init_transactions()
        yield producer


Interrupted = Callable[[Callable[[], Any]], None]


def test_a_commit_that_has_ended_may_be_repeated_once(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with ready(stuntbroker) as producer:
        producer.begin_transaction()
        producer.send("t", b"a")
        interrupted(producer.commit_transaction)
        producer.commit_transaction()
        with pytest.raises(IllegalStateError):
            producer.commit_transaction()

    assert stuntbroker.values("t") == [b"a"]


def test_a_result_that_nobody_has_taken_is_not_that_of_the_next_transaction(
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
def test_a_completion_says_what_it_has_done_when_it_is_repeated(
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


def test_an_error_that_nobody_has_seen_is_raised_when_the_call_is_repeated(
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


def test_a_producer_is_initialised_once(stuntbroker: Broker, interrupted: Interrupted) -> None:
    with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as producer:
        interrupted(producer.init_transactions)
        producer.init_transactions()
        with pytest.raises(IllegalStateError):
            producer.init_transactions()


def test_records_that_were_read_for_nobody_are_read_again(stuntbroker: Broker, interrupted: Interrupted) -> None:
    stuntbroker.produce("t", "a", "b", "c")
    with TransactionalConsumer("t", bootstrap_servers=stuntbroker.bootstrap, group_id="g") as consumer:
        values = [consumer.getone().value]
        interrupted(consumer.getone)
        interrupted(lambda: consumer.getmany(timeout_ms=10_000))
        while len(values) < 3:
            values += [record.value for batch in consumer.getmany(timeout_ms=100).values() for record in batch]

    assert values == [b"a", b"b", b"c"]
