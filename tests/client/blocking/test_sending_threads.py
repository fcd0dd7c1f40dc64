"""Records are added to batches by the threads that send them, while the producer's thread sends these batches."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from alarms import Alarm
from model_broker import ModelBroker
from opentelemetry import trace
from ready_producer import ready

from stuntbroker.client import CommitFailedError, IllegalStateError, Measurement, TransactionAbortableError
from stuntbroker.client.blocking import TransactionalProducer
from stuntbroker.client.blocking.handover import Handover
from stuntbroker.client.producer import batches
from tests.kit.transactions.repeated import repeated_blocking

ALARM_S_MAX = 0.002
TRANSACTIONS = 60
RECORDS = 400
THREADS = 4


@pytest.fixture
def switching() -> Iterator[None]:
    """Make the interpreter switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("error", [Alarm, ValueError, TypeError, IllegalStateError])
@pytest.mark.parametrize("options", [{}, {"tracer": trace.NoOpTracer()}], ids=["plain", "traced"])
def test_an_interruption_in_the_middle_of_a_record_makes_the_transaction_abortable(
    broker: ModelBroker, monkeypatch: pytest.MonkeyPatch, error: type[Exception], options: dict[str, Any]
) -> None:
    class Interrupted(DefaultRecordBatchBuilder):  # type: ignore[misc]  # aiokafka has no types.
        """Appends a record with the value "x", and then raises the error."""

        def append(self, offset: int, timestamp: int, key: Any, value: bytes, headers: Any) -> Any:
            appended = super().append(offset, timestamp, key, value, headers)
            if value == b"x":
                raise error
            return appended

    monkeypatch.setattr(batches, "DefaultRecordBatchBuilder", Interrupted)
    with ready(broker, **options) as producer:
        producer.begin_transaction()
        producer.send("t", b"a", partition=0)
        with pytest.raises(error):
            producer.send("t", b"x", partition=0)
        with pytest.raises(CommitFailedError, match=rf"send\(\) was interrupted by {error.__name__}"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"committed", partition=0)

    assert broker.committed == [b"committed"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("call", ["send", "flush", "abort_transaction", "stop"])
def test_a_signal_handler_that_interrupts_send_cannot_call_the_producer_and_does_not_hang(
    broker: ModelBroker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    refused: list[IllegalStateError] = []

    class Interrupted(DefaultRecordBatchBuilder):  # type: ignore[misc]  # aiokafka has no types.
        """Calls the producer while it appends a record with the value "x", as a signal handler could."""

        def append(self, offset: int, timestamp: int, key: Any, value: bytes, headers: Any) -> Any:
            if value == b"x":
                with pytest.raises(IllegalStateError, match="a signal handler") as raised:
                    producer.send("t", b"y", partition=0) if call == "send" else getattr(producer, call)()
                refused.append(raised.value)
            return super().append(offset, timestamp, key, value, headers)

    monkeypatch.setattr(batches, "DefaultRecordBatchBuilder", Interrupted)
    with ready(broker) as producer, producer.transaction():
        producer.send("t", b"a", partition=0)
        producer.send("t", b"x", partition=0)

    assert len(refused) == 1 and broker.committed == [b"a", b"x"]


def test_an_interrupted_send_that_waits_makes_the_transaction_abortable(
    broker: ModelBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(handover: Handover[Any], timeout_s: float | None) -> Any:
        raise Alarm

    with ready(broker) as producer:
        producer.begin_transaction()
        with monkeypatch.context() as patched, pytest.raises(Alarm):
            patched.setattr(Handover, "wait", interrupted)
            producer.send("t", b"the first record waits for metadata")
        with pytest.raises(CommitFailedError, match=r"send\(\) was interrupted by Alarm"):
            producer.commit_transaction()
        producer.abort_transaction()

    assert broker.committed == []


@pytest.mark.parametrize("seed", range(2))
def test_a_transaction_interrupted_by_a_signal_is_committed_as_sent_or_not_at_all(
    broker: ModelBroker, seed: int, alarm: Callable[[float], None]
) -> None:
    chance = random.Random(seed)
    committed: list[bytes] = []
    with ready(broker, max_batch_size=600) as producer:
        for number in range(TRANSACTIONS):
            sent: list[bytes] = []
            is_interrupted = False
            producer.begin_transaction()
            producer.send("t", b"%d first" % number, partition=0)
            try:
                alarm(chance.uniform(1e-5, ALARM_S_MAX))
                for n in range(RECORDS):
                    value = b"%d %d" % (number, n)
                    producer.send("t", value, partition=0)
                    sent.append(value)
                alarm(0)
            except Alarm:
                is_interrupted = True
            except TransactionAbortableError:
                alarm(0)
            values = [b"%d first" % number, *sent]
            try:
                producer.commit_transaction()
            except CommitFailedError:
                assert is_interrupted
                producer.abort_transaction()
                continue
            written = broker.committed[len(committed) :]
            unreported = written[len(values) :]  # The interrupted call may have added its record.
            assert written[: len(values)] == values
            assert unreported == [] or (is_interrupted and unreported == [b"%d %d" % (number, len(sent))])
            committed += written

    assert broker.committed == committed


@pytest.mark.usefixtures("switching")
def test_records_of_several_threads_are_written_once_each_in_the_order_of_each_thread(broker: ModelBroker) -> None:
    def send(producer: TransactionalProducer, thread: int) -> list[int]:
        sent = [producer.send("t", b"%d %d" % (thread, n), partition=n % 2) for n in range(RECORDS)]
        return [record.result().offset for record in sent]

    with ready(broker, max_batch_size=300) as producer, ThreadPoolExecutor(THREADS) as pool:
        for _ in range(3):
            broker.committed.clear()
            with producer.transaction():
                list(pool.map(lambda thread: send(producer, thread), range(THREADS)))
            for thread in range(THREADS):
                mine = [int(value.split()[1]) for value in broker.committed if value.startswith(b"%d " % thread)]
                assert [n for n in mine if n % 2] == list(range(1, RECORDS, 2))
                assert [n for n in mine if not n % 2] == list(range(0, RECORDS, 2))


def test_a_record_that_the_batch_builder_rejects_leaves_the_transaction_intact(broker: ModelBroker) -> None:
    with ready(broker, max_batch_size=300) as producer, producer.transaction():
        for number in range(100):
            with pytest.raises((TypeError, UnicodeEncodeError)):
                if number % 2:
                    producer.send("t", memoryview(b"abcdef")[::2], partition=0)
                else:
                    producer.send("t", b"refused", partition=0, headers=[("\udce9", b"no UTF-8")])
            producer.send("t", b"%d" % number, partition=0)

    assert broker.committed == [b"%d" % number for number in range(100)]


@pytest.mark.usefixtures("switching")
def test_a_tracer_may_take_a_lock_that_is_held_around_send(broker: ModelBroker) -> None:
    lock = threading.Lock()

    class Locking(trace.NoOpTracer):
        """Takes a lock of the application when the span of a record begins."""

        def start_span(self, name: str, *given: Any, **named: Any) -> trace.Span:
            if not name.startswith("send") or threading.current_thread() is threading.main_thread():
                return super().start_span(name, *given, **named)
            with lock:
                return super().start_span(name, *given, **named)

    def send(producer: TransactionalProducer) -> None:
        for _ in range(RECORDS):
            producer.send("t", b"traced", partition=0)

    options = {"tracer": Locking(), "max_batch_size": 300}
    with ThreadPoolExecutor(1) as pool, ready(broker, **options) as producer, producer.transaction():
        producer.send("t", b"first", partition=0)
        other = pool.submit(send, producer)
        for _ in range(RECORDS):
            with lock:
                producer.send("t", b"locked", partition=0)
        other.result(timeout=60)

    assert len(broker.committed) == 2 * RECORDS + 1


@pytest.mark.usefixtures("switching")
def test_a_measurement_callback_may_take_a_lock_that_is_held_around_send(broker: ModelBroker) -> None:
    lock = threading.Lock()
    seen: list[str] = []

    def on_measurement(measurement: Measurement) -> None:
        with lock:
            seen.append(measurement.name)

    with ready(broker, on_measurement=on_measurement, max_batch_size=300) as producer, producer.transaction():
        for n in range(2_000):
            with lock:
                producer.send("t", b"%d" % n, partition=0)

    assert len(broker.committed) == 2_000
    assert len(seen) > 10


def test_a_custom_partitioner_is_called_by_the_producers_thread_alone(broker: ModelBroker) -> None:
    threads = set()

    def first(key: bytes | None, partitions: Any, available: Any) -> int:
        threads.add(threading.get_ident())
        return int(partitions[0])

    with ready(broker, partitioner=first) as producer, producer.transaction():
        for n in range(10):
            producer.send("t", b"%d" % n)

    assert broker.committed == [b"%d" % n for n in range(10)]
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_a_lingering_record_is_sent_after_linger_ms_and_not_ahead_of_a_full_batch(broker: ModelBroker) -> None:
    with ready(broker, linger_ms=20, max_batch_size=500) as producer:
        producer.begin_transaction()
        alone = producer.send("t", b"alone", partition=0)
        assert alone.result(timeout_s=20).offset >= 0
        for n in range(100):
            producer.send("t", b"%d" % n, partition=0)
        producer.commit_transaction()

    assert broker.committed == [b"alone", *(b"%d" % n for n in range(100))]


def test_a_record_that_is_not_delivered_in_time_makes_the_transaction_abortable(broker: ModelBroker) -> None:
    gate = threading.Event()
    broker.script = lambda request, count: gate.wait(20) and None if request == "Produce" else None
    with ready(broker, delivery_timeout_ms=200, request_timeout_ms=100) as producer:
        producer.begin_transaction()
        record = producer.send("t", b"late", partition=0)
        assert record.exception(timeout_s=20) is not None
        gate.set()
        with pytest.raises(TransactionAbortableError):
            producer.send("t", b"more", partition=0)
        repeated_blocking(producer.abort_transaction)
