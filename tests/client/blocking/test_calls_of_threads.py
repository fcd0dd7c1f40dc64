"""Several threads use one producer: each call takes effect once, and a `transaction()` block ends only its own transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from model_broker import ModelBroker
from ready_producer import ready

from stuntbroker.client import IllegalStateError
from stuntbroker.client.blocking import TransactionalProducer

ROUNDS = 60


def in_threads(*calls: Callable[[], object]) -> list[BaseException | None]:
    """Make the calls in threads of their own, at the same time; return what each has raised."""
    raised: list[BaseException | None] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def make(place: int, call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=make, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


def test_of_two_threads_that_begin_at_once_one_is_refused(broker: ModelBroker) -> None:
    with ready(broker) as producer:
        for _ in range(ROUNDS):
            raised = in_threads(producer.begin_transaction, producer.begin_transaction)

            assert sorted(type(each).__name__ for each in raised) == ["IllegalStateError", "NoneType"]
            producer.abort_transaction()


@pytest.mark.parametrize(
    "end", [lambda producer: producer.stop(), lambda producer: producer.abort_transaction()], ids=["stop", "abort"]
)
def test_a_block_whose_transaction_another_thread_has_aborted_raises(
    broker: ModelBroker, end: Callable[[TransactionalProducer], None]
) -> None:
    with ready(broker) as producer:
        with (
            pytest.raises(IllegalStateError, match="another task or thread has aborted the transaction"),
            producer.transaction(),
        ):
            producer.send_and_wait("t", b"of the block")
            assert in_threads(lambda: end(producer)) == [None]

        assert broker.committed == []


def test_a_block_may_end_its_transaction_itself(broker: ModelBroker) -> None:
    with ready(broker) as producer:
        with producer.transaction():
            producer.send_and_wait("t", b"aborted")
            producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"committed")
            producer.commit_transaction()
            assert in_threads(lambda: whole(producer, b"of another thread")) == [None]
        assert broker.committed == [b"committed", b"of another thread"]
        with producer.transaction():
            producer.send_and_wait("t", b"aborted")
            producer.stop()
        assert broker.committed == [b"committed", b"of another thread"]


def whole(producer: TransactionalProducer, value: bytes) -> None:
    with producer.transaction():
        producer.send("t", value)
