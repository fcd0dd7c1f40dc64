"""Transactional producers of four languages that a test controls call by call.

A test is written once and runs with each of them: Apache Kafka's own client in Java, franz-go, confluent-kafka (librdkafka)
and aiokafka. Two of them are programs that read commands; two run in this process.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

CALL_S_MAX = 40.0
READ_S_MAX = 30.0
REQUEST_TIMEOUT_MS = 1_000
"""Request time-out of the clients, and so the cost of a lost response; their defaults are 10 to 60 s."""
AIOKAFKA_TIMEOUT_MS = 4_000
"""Request time-out of aiokafka, which fails a record after it, too: on a busy machine, a second may not be enough."""
BACKOFF_MS = 20
HEARTBEAT_MS = 100
"""Heartbeat interval of group members; the default is three seconds."""


class CallError(Exception):
    """A call has failed, with the client's own error message."""


class Client(ABC):
    """The producers of one client library by name, which is also their client id."""

    def __init__(self) -> None:
        self._opened: list[str] = []

    @abstractmethod
    def start(self, producer: str, verb: str, *arguments: object) -> Future[list[str]]:
        """Begin a call; it raises CallError."""

    def call(self, producer: str, verb: str, *arguments: object) -> list[str]:
        """Do it to the end. Raises CallError.

        open BOOTSTRAP TRANSACTIONAL_ID TIMEOUT_MS, begin, send TOPIC PARTITION VALUE (until it is acknowledged), commit, abort,
        close; read BOOTSTRAP TOPIC COUNT returns so many committed values, and follow does so as a member of a group that has the
        name of the producer; relay BOOTSTRAP TOPIC TRANSACTIONAL_ID TIMEOUT_MS reads one record as such a member, and commits its
        offset in a transaction of a producer of its own.
        """
        if verb == "open":
            self._opened.append(producer)
        return self.start(producer, verb, *arguments).result(CALL_S_MAX)

    def close_producers(self) -> None:
        """Close all open producers, ignoring errors of producers in unfinished transactions, as their broker ends too."""
        closing = [self.start(name, "close") for name in self._opened]
        self._opened.clear()
        for each in closing:
            each.exception(CALL_S_MAX)

    @abstractmethod
    def close(self) -> None:
        """Stop the client's process or threads."""


class Program(Client):
    """Producers in a program of another language, which serves several tests."""

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._calls: dict[str, Future[list[str]]] = {}
        self._numbers = itertools.count()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, producer: str, verb: str, *arguments: object) -> Future[list[str]]:
        assert self._process.stdin is not None
        number = str(next(self._numbers))
        call = self._calls[number] = Future()
        self._process.stdin.write("\t".join([number, producer, verb, *map(str, arguments)]) + "\n")
        self._process.stdin.flush()
        return call

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(CALL_S_MAX)
        finally:
            self._process.kill()
        self._reader.join(CALL_S_MAX)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *said = line.rstrip("\n").split("\t")
            if number in self._calls:  # All other lines are log output.
                call = self._calls.pop(number)
                if said[0] == "ok":
                    call.set_result(said[1:])
                else:
                    call.set_exception(CallError(said[1]))
        for call in self._calls.values():
            call.set_exception(CallError("the program has ended"))


class InProcess(Client):
    """Producers in this process, each with a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: defaultdict[str, ThreadPoolExecutor] = defaultdict(lambda: ThreadPoolExecutor(1))

    def start(self, producer: str, verb: str, *arguments: object) -> Future[list[str]]:
        def carry_out() -> list[str]:
            try:
                method: Callable[..., list[str] | None] = getattr(self, f"_{verb}")
                return method(producer, *arguments) or []
            except AssertionError:
                raise
            except Exception as raised:
                raise CallError(f"{type(raised).__name__}: {raised}") from raised

        return self._threads[producer].submit(carry_out)

    def close(self) -> None:
        for each in self._threads.values():
            each.shutdown()


class ConfluentKafka(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self._producers: dict[str, confluent_kafka.Producer] = {}

    def _open(self, name: str, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        producer = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap, "client.id": name, "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms, "log_level": 0, "linger.ms": 0, "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": timeout_ms, "retry.backoff.ms": BACKOFF_MS, "retry.backoff.max.ms": 5 * BACKOFF_MS,
            "reconnect.backoff.ms": BACKOFF_MS, "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
            "topic.metadata.refresh.fast.interval.ms": BACKOFF_MS,
        })  # fmt: skip
        self._producers[name] = producer
        producer.init_transactions(READ_S_MAX)

    def _begin(self, name: str) -> None:
        self._producers[name].begin_transaction()

    def _send(self, name: str, topic: str, partition: int, value: str) -> None:
        refused: list[confluent_kafka.KafkaError] = []
        self._producers[name].produce(
            topic, value, partition=partition, on_delivery=lambda error, _: refused.extend([error] if error else [])
        )
        left = self._producers[name].flush(READ_S_MAX)
        if left or refused:
            raise confluent_kafka.KafkaException(*refused or ["not acknowledged"])

    def _commit(self, name: str) -> None:
        self._producers[name].commit_transaction(READ_S_MAX)

    def _abort(self, name: str) -> None:
        self._producers[name].abort_transaction(READ_S_MAX)

    def _close(self, name: str) -> None:
        del self._producers[name]

    def _read(self, name: str, bootstrap: str, topic: str, count: int) -> list[str]:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": name, "log_level": 0})
        partitions = consumer.list_topics(topic, READ_S_MAX).topics[topic].partitions
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, each, start) for each in partitions])
        return self._polled(consumer, count)

    def _follow(self, name: str, bootstrap: str, topic: str, count: int) -> list[str]:
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": name, "log_level": 0, "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.subscribe([topic])
        return self._polled(consumer, count)

    def _relay(self, name: str, bootstrap: str, topic: str, transactional_id: str, timeout_ms: int) -> None:
        self._open(name, bootstrap, transactional_id, timeout_ms)
        producer = self._producers.pop(name)
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": name, "log_level": 0, "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        })  # fmt: skip
        consumer.subscribe([topic])
        try:
            message = consumer.poll(READ_S_MAX)
            assert message is not None and message.error() is None
            producer.begin_transaction()
            positions = consumer.position(consumer.assignment())
            try:
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), READ_S_MAX)
                producer.commit_transaction(READ_S_MAX)
            except confluent_kafka.KafkaException:
                producer.abort_transaction(READ_S_MAX)
                raise
        finally:
            consumer.close()

    def _polled(self, consumer: confluent_kafka.Consumer, count: int) -> list[str]:
        values: list[str] = []
        try:
            deadline = time.monotonic() + READ_S_MAX
            while len(values) < count:
                assert time.monotonic() < deadline, values
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    values.append(message.value().decode())
        finally:
            consumer.close()
        return values


class AioKafka(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self._producers: dict[str, AIOKafkaProducer] = {}
        self._loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner.start()

    def close(self) -> None:
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._runner.join(CALL_S_MAX)
        self._loop.close()

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_S_MAX)

    def _open(self, name: str, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        async def opened() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                client_id=name,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                request_timeout_ms=AIOKAFKA_TIMEOUT_MS,
                retry_backoff_ms=BACKOFF_MS,
            )
            self._producers[name] = producer
            await producer.start()
            return producer

        self._await(opened())

    def _begin(self, name: str) -> None:
        self._await(self._producers[name].begin_transaction())

    def _send(self, name: str, topic: str, partition: int, value: str) -> None:
        self._await(self._producers[name].send_and_wait(topic, value.encode(), partition=partition))

    def _commit(self, name: str) -> None:
        self._await(self._producers[name].commit_transaction())

    def _abort(self, name: str) -> None:
        self._await(self._producers[name].abort_transaction())

    def _close(self, name: str) -> None:
        self._await(self._producers.pop(name).stop())

    def _follow(self, name: str, bootstrap: str, topic: str, count: int) -> list[str]:
        return self._read(name, bootstrap, topic, count, group_id=name, heartbeat_interval_ms=HEARTBEAT_MS)

    def _relay(self, name: str, bootstrap: str, topic: str, transactional_id: str, timeout_ms: int) -> None:
        async def relayed() -> None:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                record = await consumer.getone()
                async with producer.transaction():
                    place = TopicPartition(record.topic, record.partition)
                    await producer.send_offsets_to_transaction({place: record.offset + 1}, name)
            finally:
                await consumer.stop()

        self._open(name, bootstrap, transactional_id, timeout_ms)
        producer = self._producers[name]
        try:
            self._await(asyncio.wait_for(relayed(), READ_S_MAX))
        finally:
            self._close(name)

    def _read(self, name: str, bootstrap: str, topic: str, count: int, **options: Any) -> list[str]:
        async def values() -> list[str]:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                **options,
            )
            await consumer.start()
            try:
                return [(await consumer.getone()).value.decode() for _ in range(count)]
            finally:
                await consumer.stop()

        return list(self._await(asyncio.wait_for(values(), READ_S_MAX)))
