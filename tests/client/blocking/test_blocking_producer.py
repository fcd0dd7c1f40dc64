"""The blocking producer: calls between its own thread and the threads that use it. Other tests cover the asyncio producer."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from model_broker import ModelBroker
from ready_producer import ready

from stuntbroker.client import (
    CommitFailedError,
    FailureType,
    IllegalStateError,
    OperationTimedOutError,
    PreparedTxnState,
    ProduceFailedError,
    State,
    TransactionAbortableError,
    blocking,
)
from stuntbroker.client import TransactionalConsumer as AsyncConsumer
from stuntbroker.client import TransactionalProducer as AsyncProducer
from stuntbroker.client.blocking import SentRecord, TransactionalProducer
from stuntbroker.client.blocking.records import RecordAppender
from stuntbroker.fixture.broker import Broker
from tests.kit.transactions.faults import Fault
from tests.kit.transactions.repeated import repeated_blocking

INVALID_RECORD, LOADING, NOT_LEADER = 87, 14, 6


def test_the_blocking_producer_has_the_calls_and_options_of_the_asyncio_producer() -> None:
    def calls(cls: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(cls, callable)
            if not name.startswith("_")
        }

    twins = calls(AsyncProducer)
    assert {name: parameters for name, parameters in calls(TransactionalProducer).items() if name in twins} == twins
    assert inspect.signature(TransactionalProducer.__init__) == inspect.signature(AsyncProducer.__init__)
    assert calls(blocking.TransactionalConsumer) == calls(AsyncConsumer)


def test_records_are_committed_in_the_order_of_the_calls(broker: ModelBroker) -> None:
    with ready(broker, max_batch_size=500) as producer:
        for transaction in range(3):
            with producer.transaction():
                sent = [
                    producer.send("t", b"%d" % (transaction * 2000 + n), key=b"k", partition=0) for n in range(2000)
                ]
            assert all(record.done() for record in sent)
            assert sent[0].result().topic == "t"

    assert broker.committed == [b"%d" % n for n in range(6000)]


def test_an_abort_discards_records_that_were_sent(broker: ModelBroker) -> None:
    with ready(broker) as producer:
        producer.begin_transaction()
        sent = [producer.send("t", b"%d" % n) for n in range(100)]
        producer.abort_transaction()
        assert producer.state is State.READY
        for record in sent:
            error = record.exception()
            assert error is None or error.failure_type is FailureType.TRANSACTION_FAILED
        with producer.transaction():
            producer.send("t", b"committed")

    assert broker.committed == [b"committed"]


def test_a_buffer_that_is_full_holds_the_sender_back(broker: ModelBroker) -> None:
    with ready(broker, buffer_memory=10_000, max_batch_size=1000) as producer, producer.transaction():
        for n in range(300):
            producer.send("t", b"%d" % n * 100, partition=0)

    assert [int(value) for value in broker.committed] == [int(b"%d" % n * 100) for n in range(300)]


def test_a_failed_record_fails_the_commit(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(INVALID_RECORD) if (request, count) == ("Produce", 1) else None
    with ready(broker) as producer:
        with pytest.raises(CommitFailedError), producer.transaction():
            record = producer.send("t", b"refused")
        assert isinstance(record.exception(), ProduceFailedError)
        assert producer.state is State.READY
        with producer.transaction():
            producer.send("t", b"committed")

    assert broker.committed == [b"committed"]


def test_send_raises_once_the_transaction_has_failed(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(INVALID_RECORD) if request == "Produce" else None
    with ready(broker) as producer:
        producer.begin_transaction()
        with pytest.raises(ProduceFailedError):
            producer.send("t", b"refused").result()
        with pytest.raises(TransactionAbortableError):
            producer.send("t", b"another")
        producer.abort_transaction()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"key": 1}, TypeError),
        ({"partition": 7}, ValueError),
        ({"headers": [("h", "text")]}, Exception),
        ({"partition": 1.0}, TypeError),
        ({"timestamp_ms": "1"}, TypeError),
        ({"timestamp_ms": -1}, ValueError),
        ({"timestamp_ms": 1 << 70}, ValueError),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [True, False], ids=["first record", "later record"])
def test_a_record_that_cannot_be_written_raises_an_error(
    broker: ModelBroker, wrong: dict[str, Any], error: type[Exception], first: bool
) -> None:
    with ready(broker) as producer:
        producer.begin_transaction()
        if not first:
            producer.send("t", b"before")
        with pytest.raises(error):
            producer.send("t", **{"value": b"v", **wrong}).result()
            producer.commit_transaction()
        producer.abort_transaction()

    assert broker.committed == []


def test_threads_share_a_producer(broker: ModelBroker) -> None:
    with ready(broker, max_batch_size=300) as producer, ThreadPoolExecutor(4) as pool, producer.transaction():
        list(pool.map(lambda thread: [producer.send("t", b"%d %d" % (thread, n)) for n in range(200)], range(4)))
    assert sorted(broker.committed) == sorted(b"%d %d" % (thread, n) for thread in range(4) for n in range(200))


def test_records_sent_during_a_commit_are_committed_in_order_or_refused(broker: ModelBroker) -> None:
    """While a thread commits, records of another thread are written to that transaction or a later one, or are refused."""
    taken: list[bytes] = []
    with ready(broker) as producer:

        def send() -> None:
            for n in range(3000):
                try:
                    producer.send("t", b"%d" % n, partition=0)
                except IllegalStateError:
                    continue
                taken.append(b"%d" % n)

        producer.begin_transaction()
        thread = threading.Thread(target=send)
        thread.start()
        for _ in range(20):
            producer.commit_transaction()
            producer.begin_transaction()
        thread.join()
        producer.commit_transaction()

    assert broker.committed == taken


def test_a_record_that_had_to_wait_does_not_become_part_of_a_later_transaction(
    broker: ModelBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread ends the transaction after `send` has decided to wait, and before it waits."""

    def end_transaction(*record: Any) -> None:
        producer.commit_transaction()
        producer.begin_transaction()

    with ready(broker) as producer:
        producer.begin_transaction()
        producer.send("t", b"first")
        with monkeypatch.context() as patched, pytest.raises(IllegalStateError, match="ended meanwhile"):
            patched.setattr(RecordAppender, "append", lambda self, *record: end_transaction())
            producer.send("t", b"late")
        producer.commit_transaction()

    assert broker.committed == [b"first"]


def test_a_commit_that_timed_out_is_called_again(broker: ModelBroker) -> None:
    with ready(broker, max_block_ms=300) as producer:
        producer.begin_transaction()
        producer.send("t", b"committed")
        broker.script = lambda request, count: Fault(LOADING) if request.startswith("EndTxn") else None
        with pytest.raises(OperationTimedOutError):
            producer.commit_transaction()
        for call in (lambda: producer.send("t", b"late"), producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(IllegalStateError):
                call()
        broker.script = lambda request, count: None
        producer.commit_transaction()

    assert broker.committed == [b"committed"]


def test_the_result_of_a_record_can_be_waited_for_a_limited_time(broker: ModelBroker) -> None:
    with ready(broker) as producer:
        producer.begin_transaction()
        broker.script = lambda request, count: Fault(NOT_LEADER) if request == "Produce" else None
        record = producer.send("t", b"v", partition=1)
        with pytest.raises(TimeoutError):
            record.result(timeout_s=0.02)
        assert not record.done()
        broker.script = lambda request, count: None
        assert record.result().partition == 1
        producer.commit_transaction()


def test_a_callback_is_called_for_what_is_written_and_for_what_fails(broker: ModelBroker) -> None:
    seen: list[tuple[int, SentRecord]] = []
    with ready(broker) as producer:
        with producer.transaction():
            for n in range(3):
                producer.send("t", b"%d" % n).add_done_callback(lambda record, n=n: seen.append((n, record)))  # type: ignore[misc]
        producer.begin_transaction()
        doomed = producer.send("t", b"aborted")
        doomed.add_done_callback(lambda record: seen.append((3, record)))
        producer.abort_transaction()
        doomed.exception()
    assert sorted(n for n, _ in seen) == [0, 1, 2, 3]
    assert all(record.done() for _, record in seen)


def test_a_prepared_transaction_is_completed_by_the_text_of_its_state() -> None:
    with ModelBroker(2) as broker, ready(broker, enable_2pc=True) as producer:
        producer.begin_transaction()
        producer.send("t", b"decided")
        stored = str(producer.prepare_transaction())
        with pytest.raises(IllegalStateError):
            producer.send("t", b"late")
        assert producer.complete_transaction(PreparedTxnState.parse(stored)) is True
        assert broker.committed == [b"decided"]


def test_a_block_leaves_its_prepared_transaction_open_and_may_complete_it() -> None:
    with ModelBroker(2) as broker, ready(broker, enable_2pc=True) as producer:
        with pytest.raises(ConnectionError), producer.transaction():
            producer.send("t", b"prepared")
            stored = producer.prepare_transaction()
            raise ConnectionError("the database did not say whether it has committed")
        assert producer.state is State.PREPARED_TRANSACTION
        assert producer.complete_transaction(stored)
        with producer.transaction():
            producer.send("t", b"completed")
            assert producer.complete_transaction(producer.prepare_transaction())
        assert broker.committed == [b"prepared", b"completed"]


def test_a_closed_producer_has_no_thread_and_rejects_calls(broker: ModelBroker) -> None:
    with ready(broker) as producer:
        producer.begin_transaction()
        producer.send("t", b"open")
        assert any("stuntbroker producer 'id'" in thread.name for thread in threading.enumerate())
    producer.stop()
    assert not any("stuntbroker producer 'id'" in thread.name for thread in threading.enumerate())
    assert broker.committed == []
    for call in (producer.begin_transaction, lambda: producer.send("t", b"late"), producer.start):
        with pytest.raises(IllegalStateError):
            call()


def test_a_producer_that_cannot_connect_leaves_no_thread() -> None:
    producer = TransactionalProducer(bootstrap_servers="127.0.0.1:1", transactional_id="nobody")
    with pytest.raises(Exception, match=r"no connection to a bootstrap server: 127\.0\.0\.1:1: "):
        producer.start()
    assert not any("nobody" in thread.name for thread in threading.enumerate())


def test_send_copies_the_value_of_a_mutable_buffer(broker: ModelBroker) -> None:
    with ready(broker) as producer, producer.transaction():
        producer.send("t", b"first", partition=0)
        buffer = bytearray(b"one")
        for value in (b"one", b"two", b"six"):
            buffer[:] = value
            producer.send("t", buffer, partition=0)
            producer.send("t", memoryview(buffer), partition=0)

    assert broker.committed == [b"first", b"one", b"one", b"two", b"two", b"six", b"six"]


@pytest.mark.parametrize("headers", [[("h", "text")], [(b"h", b"v")], [("h", 5)], [("\udce9", b"no UTF-8")]])
def test_send_rejects_an_invalid_header_and_the_transaction_continues(
    broker: ModelBroker, headers: list[tuple[Any, Any]]
) -> None:
    with ready(broker) as producer, producer.transaction():
        for _ in range(3):
            with pytest.raises((TypeError, UnicodeEncodeError)):
                producer.send("t", b"refused", partition=0, headers=headers)
            producer.send("t", b"value", partition=0, headers=[("h", b"v"), ("h", None)])

    assert broker.committed == [b"value"] * 3


def test_headers_may_come_from_an_iterator(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("t")
    with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"value", headers=zip(["a", "b"], [b"1", b"2"], strict=True))  # type: ignore[arg-type]

    (record,) = stuntbroker.records("t")
    assert list(record.headers) == [("a", b"1"), ("b", b"2")]


def test_a_record_that_is_too_large_for_a_request_fails_its_transaction(broker: ModelBroker) -> None:
    with ready(broker, max_request_size=1000) as producer:
        producer.begin_transaction()
        producer.send("t", b"v")
        error = producer.send("t", b"v" * 1000).exception()
        producer.abort_transaction()
    assert error is not None and error.failure_type is FailureType.MESSAGE_REJECTED


def test_a_callback_added_to_a_finished_record_runs_immediately_even_after_close(broker: ModelBroker) -> None:
    with ready(broker) as producer, producer.transaction():
        record = producer.send("t", b"v")
    called: list[SentRecord] = []
    record.add_done_callback(called.append)
    assert called == [record]


@pytest.mark.parametrize("end", ["abort_transaction", "stop"])
def test_abort_and_stop_complete_when_a_record_callback_raises_an_error(
    broker: ModelBroker, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    with ready(broker, buffer_memory=10) as producer:
        producer.begin_transaction()
        broker.script = lambda request, count: gate.wait(20) and None if request == "Produce" else None
        record = producer.send("t", b"x" * 20, partition=0)
        record.add_done_callback(lambda record: 1 / 0)
        gate.set()
        getattr(producer, end)()
        assert producer.state in (State.READY, State.CLOSED)

    assert "a callback of a record raised an error" in caplog.text


def test_a_waiting_send_raises_when_another_thread_stops_the_producer(broker: ModelBroker) -> None:
    gate = threading.Event()
    metadata = broker.handlers[3]
    with ready(broker) as producer:
        producer.begin_transaction()
        is_asked = threading.Event()

        def held(request: Any, version: int) -> Any:
            is_asked.set()
            gate.wait(20)
            return metadata(request, version)

        broker.handlers[3] = held
        raised: list[BaseException] = []

        def send() -> None:
            try:
                producer.send("unknown", b"value")
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        assert is_asked.wait(20)
        producer.stop()
        thread.join(20)
        assert not thread.is_alive()
        gate.set()

    assert [type(error) for error in raised] == [IllegalStateError]


def test_a_block_raises_when_its_commit_times_out(broker: ModelBroker) -> None:
    gate = threading.Event()
    broker.script = lambda request, count: gate.wait(20) and None if request == "EndTxn (commit)" else None
    with ready(broker, max_block_ms=50) as producer:
        with pytest.raises(OperationTimedOutError), producer.transaction():
            producer.send("t", b"value")
        gate.set()
        repeated_blocking(producer.commit_transaction)

    assert broker.committed == [b"value"]


FORKS = """
import os, sys
from stuntbroker.client import IllegalStateError
from stuntbroker.client.blocking import TransactionalProducer

def make(name):
    return TransactionalProducer(bootstrap_servers=sys.argv[1], transactional_id=name, retry_backoff_ms=1)

parent = make("id")
parent.start()
parent.init_transactions()
parent.begin_transaction()
parent.send("t", b"parent")
child = os.fork()
if not child:
    status = 1
    try:
        for call in (lambda: parent.send("t", b"stolen"), parent.commit_transaction, parent.abort_transaction):
            try:
                call()
            except IllegalStateError as error:
                assert "after the fork" in str(error), error
            else:
                raise AssertionError("it worked")
        parent.stop()
        with make("id") as own:
            print("own producer", flush=True)
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
parent.commit_transaction()
if sys.argv[2] == "stop":
    parent.stop()
print("done", flush=True)
"""


@pytest.mark.parametrize("end", ["stop", "exit"])
def test_a_forked_child_can_create_a_producer_without_affecting_that_of_its_parent(
    broker: ModelBroker, end: str
) -> None:
    command = [sys.executable, "-c", FORKS, str(broker.address), end]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout.split()) == (0, ["own", "producer", "done"]), ended.stderr
    assert broker.committed == [b"parent"]
