"""The producer checks its arguments before it sends anything, and an invalid argument affects no other record."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, NamedTuple

import numpy
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from stuntbroker.client import (
    ApplicationRecoverableError,
    Connections,
    FailureType,
    GroupMetadata,
    IllegalStateError,
    ProduceFailedError,
    TransactionAbortableError,
    TransactionalConsumer,
    TransactionalProducer,
    blocking,
)
from stuntbroker.client.connections.options import check_bootstrap
from stuntbroker.client.consumer.types import ConsumerOptions
from stuntbroker.client.producer.arguments import offsets_of
from stuntbroker.client.security import Security
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.errors import ErrorCode

NO_TOPICS: tuple[Any, ...] = (None, 5, b"orders", ["orders"])
NO_NAMES = ("", "bad name!", "caf\udce9", "..", "x" * 250)
WRONG_OPTIONS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an id that is no text": ({"transactional_id": 5}, TypeError, "transactional_id is a text, not int"),
    "no servers": (
        {"transactional_id": "id", "bootstrap_servers": []},
        ValueError,
        "bootstrap_servers is []: give at least",
    ),
    "a port that there is not": (
        {"transactional_id": "id", "bootstrap_servers": "localhost:9092,localhost:99999"},
        ValueError,
        "bootstrap_servers is 'localhost:9092,localhost:99999': a port is a number from 0 to 65535",
    ),
    "a negative port": (
        {"transactional_id": "id", "bootstrap_servers": "localhost:-1"},
        ValueError,
        "bootstrap_servers is 'localhost:-1': a port is a number from 0 to 65535",
    ),
    "a port that is no number": (
        {"transactional_id": "id", "bootstrap_servers": "[::1]:9092,localhost:abc"},
        ValueError,
        "bootstrap_servers is '[::1]:9092,localhost:abc': a port is a number from 0 to 65535",
    ),
    "a protocol": (
        {"transactional_id": "id", "bootstrap_servers": "PLAINTEXT://localhost:9092"},
        ValueError,
        "bootstrap_servers is 'PLAINTEXT://localhost:9092': it is HOST:PORT, without a protocol",
    ),
    "no host": (
        {"transactional_id": "id", "bootstrap_servers": ":9092"},
        ValueError,
        "bootstrap_servers is ':9092': it is HOST:PORT",
    ),
    "several servers in a text of a list": (
        {"transactional_id": "id", "bootstrap_servers": ["localhost:1,localhost:2"]},
        ValueError,
        "bootstrap_servers is ['localhost:1,localhost:2']: each text of a list is one HOST:PORT",
    ),
    "servers that are none": (
        {"transactional_id": "id", "bootstrap_servers": None},
        TypeError,
        "bootstrap_servers is None",
    ),
    "a partitioner that is no function": ({"transactional_id": "id", "partitioner": 5}, TypeError, "partitioner is 5"),
    "a list of compression types": (
        {"transactional_id": "id", "compression_type": ["gzip"]},
        ValueError,
        "compression_type ['gzip'] is none of",
    ),
    "an id without UTF-8": (
        {"transactional_id": "\udce9"},
        ValueError,
        "transactional_id '\\udce9' cannot be encoded as UTF-8",
    ),
    "an id that is too long": ({"transactional_id": "x" * 40_000}, ValueError, "transactional_id has 40000 bytes"),
    "a request time-out that is too long": (
        {"transactional_id": "id", "request_timeout_ms": 1 << 31},
        ValueError,
        "request_timeout_ms is 2147483648: it can be at most 2147483647",
    ),
    "a batch size that is too large": (
        {"transactional_id": "id", "max_batch_size": 1 << 63},
        ValueError,
        "max_batch_size is 9223372036854775808",
    ),
    "a time-out that is too long": (
        {"transactional_id": "id", "transaction_timeout_ms": 1 << 40},
        ValueError,
        "transaction_timeout_ms is 1099511627776",
    ),
    "a time that is a text": ({"linger_ms": "5"}, TypeError, "linger_ms is '5': it has to be a whole number"),
    "a time-out that is a fraction": ({"request_timeout_ms": 30e3}, TypeError, "request_timeout_ms is 30000.0"),
    "a time-out of transactions that is a fraction": (
        {"transaction_timeout_ms": 1.5},
        TypeError,
        "transaction_timeout_ms is 1.5",
    ),
    "an age that is a text": ({"metadata_max_age_ms": "x"}, TypeError, "metadata_max_age_ms is 'x'"),
    "an idle time of nothing": ({"connections_max_idle_ms": 0}, ValueError, "connections_max_idle_ms is 0"),
    "a client id that is no text": ({"client_id": 5}, TypeError, "client_id is a text, not int"),
    "records that nobody acknowledges": ({"acks": 0}, ValueError, "acks is 0: records of a transaction are"),
    "a mechanism that is none": (
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "NTLM"},
        ValueError,
        "sasl_mechanism 'NTLM' is none of PLAIN, GSSAPI",
    ),
    "a mechanism whose package is missing": (
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"},
        ValueError,
        "sasl_mechanism GSSAPI needs the package gssapi",
    ),
    "no idempotence": ({"enable_idempotence": False}, ValueError, "enable_idempotence is False"),
}
WRONG_OFFSETS: dict[str, tuple[Any, Any, type[Exception]]] = {
    "an offset below 0": ({TopicPartition("t", 0): -5}, "group", ValueError),
    "an offset above the last": ({TopicPartition("t", 0): 1 << 63}, "group", ValueError),
    "an offset that is a fraction": ({TopicPartition("t", 0): (1.5, "")}, "group", TypeError),
    "an offset that is a text": ({TopicPartition("t", 0): "1"}, "group", TypeError),
    "an offset that is nothing": ({TopicPartition("t", 0): None}, "group", TypeError),
    "a float as an offset": ({TopicPartition("t", 0): 1.0}, "group", TypeError),
    "a partition below 0": ({TopicPartition("t", -1): 5}, "group", ValueError),
    "metadata without UTF-8": ({TopicPartition("t", 0): (5, "\udce9")}, "group", ValueError),
    "a topic that is no name": ({TopicPartition("bad name!", 0): 5}, "group", ValueError),
    "a group that is no text": ({TopicPartition("t", 0): 5}, GroupMetadata(5), TypeError),  # type: ignore[arg-type]
    "no group": ({TopicPartition("t", 0): 5}, None, TypeError),
    "a group without a name": ({TopicPartition("t", 0): 5}, "", ValueError),
    "an instance that is no text": ({TopicPartition("t", 0): 5}, GroupMetadata("g", 1, "m", 7), TypeError),  # type: ignore[arg-type]
    "a generation that is a text": ({TopicPartition("t", 0): 5}, GroupMetadata("g", "5"), TypeError),  # type: ignore[arg-type]
    "a generation that is too high": ({TopicPartition("t", 0): 5}, GroupMetadata("g", 1 << 40), ValueError),
    "a group without UTF-8": ({TopicPartition("t", 0): 5}, "\udce9", ValueError),
}


@pytest.fixture
async def producer(stuntbroker: Broker) -> Any:
    stuntbroker.create_topic("orders")
    stuntbroker.create_topic("other")
    options: dict[str, Any] = {"bootstrap_servers": stuntbroker.bootstrap, "max_block_ms": 10_000}
    async with TransactionalProducer(transactional_id="id", **options) as created:
        await created.init_transactions()
        await created.begin_transaction()
        yield created


async def write_elsewhere(producer: TransactionalProducer, broker: Broker) -> None:
    """Check that the producer can still write to a topic whose metadata it does not know yet."""
    await producer.send("other", b"later")
    await producer.commit_transaction()
    broker.assert_committed("other", ["later"])


async def test_a_topic_of_a_wrong_type_raises_type_error_and_the_transaction_continues(
    producer: TransactionalProducer, stuntbroker: Broker
) -> None:
    for topic in NO_TOPICS:
        with pytest.raises(TypeError):
            await producer.send(topic, b"x")
        with pytest.raises(TypeError):
            await producer.partitions_for(topic)
    await write_elsewhere(producer, stuntbroker)


@pytest.mark.parametrize("topic", NO_NAMES)
async def test_a_record_for_an_invalid_topic_name_is_rejected_and_the_next_transaction_commits(
    topic: str, producer: TransactionalProducer, stuntbroker: Broker
) -> None:
    with pytest.raises(ProduceFailedError) as refused:
        await producer.send_and_wait(topic, b"x")
    assert refused.value.failure_type is FailureType.MESSAGE_REJECTED
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(ValueError, match="Topic name is invalid"):
        await producer.partitions_for(topic)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await write_elsewhere(producer, stuntbroker)


async def test_an_invalid_topic_name_does_not_affect_other_producers_on_shared_connections(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("other")
    async with Connections(bootstrap_servers=stuntbroker.bootstrap) as connections:
        for id_, topic in (("first", "caf\udce9"), ("second", "other")):
            async with TransactionalProducer(connections=connections, transactional_id=id_) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await producer.send(topic, b"x")
                await (producer.commit_transaction() if topic == "other" else producer.abort_transaction())
    stuntbroker.assert_committed("other", ["x"])


@pytest.mark.parametrize("name", WRONG_OPTIONS)
async def test_an_option_that_no_request_can_encode_is_rejected_by_the_constructor(name: str) -> None:
    options, kind, text = WRONG_OPTIONS[name]
    with pytest.raises(kind) as refused:
        TransactionalProducer(**{"transactional_id": "id"} | options)
    assert str(refused.value).startswith(text)


def test_options_that_repeat_a_fixed_setting_are_accepted() -> None:
    for acks in ("all", -1):
        TransactionalProducer(transactional_id="id", acks=acks, enable_idempotence=True)
    TransactionalProducer(transactional_id="id", security_protocol="PLAINTEXT", sasl_mechanism=None)


async def test_a_call_before_init_transactions_raises_illegal_state_error(stuntbroker: Broker) -> None:
    async with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as producer:
        with pytest.raises(IllegalStateError, match="call init_transactions first"):
            await producer.begin_transaction()


async def test_consumer_errors_name_the_invalid_argument_or_the_group(stuntbroker: Broker) -> None:
    with pytest.raises(ValueError, match="auto_offset_reset is 'sometimes': it is one of earliest, latest, none"):
        TransactionalConsumer("orders", group_id="g", auto_offset_reset="sometimes")
    for group_id, kind in ((None, TypeError), (5, TypeError), ("", ValueError)):
        with pytest.raises(kind, match="group_id"):
            TransactionalConsumer("orders", group_id=group_id)  # type: ignore[arg-type]
    consumer = TransactionalConsumer("orders", group_id="g", bootstrap_servers=stuntbroker.bootstrap)
    with pytest.raises(IllegalStateError, match="the consumer of group 'g' is not started"):
        await consumer.getmany()
    await consumer.stop()


async def test_an_unsent_record_of_a_closed_producer_reports_the_close_and_not_an_abort(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("orders")
    producer = TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id", linger_ms=60_000)
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    record = await producer.send("orders", b"not sent")
    await producer.stop(leave_open=True)
    with pytest.raises(ProduceFailedError, match="the producer was closed"):
        await record


@pytest.mark.parametrize("name", WRONG_OFFSETS)
async def test_offsets_that_no_request_can_carry_are_refused_and_the_transaction_continues(
    name: str, producer: TransactionalProducer, stuntbroker: Broker
) -> None:
    offsets, group, kind = WRONG_OFFSETS[name]
    with pytest.raises(kind):
        await producer.send_offsets_to_transaction(offsets, group)
    await write_elsewhere(producer, stuntbroker)


@pytest.mark.parametrize("key", ["orders", "ab", 5, ("orders",)])
async def test_offsets_of_what_is_no_partition_are_refused_by_name(key: Any) -> None:
    with pytest.raises(TypeError, match=r"a key of offsets is a TopicPartition, or \(topic, partition\), not "):
        offsets_of({key: 3})


@pytest.mark.parametrize(
    "servers", ["2001:db8::1:99999", "localhost:9092:9093", "localhost:9092:abc", "[::1", "[::1]9092"]
)
def test_an_address_that_looks_like_ipv6_and_is_not_is_refused(servers: str) -> None:
    with pytest.raises(ValueError, match=r"\[ADDRESS\]:PORT"):
        check_bootstrap(servers)


@pytest.mark.parametrize(
    "servers",
    ["localhost", "::1", "[::1]", "[::1]:9092", "fe80::abcd%eth0", "a:1, b:2", "localhost: 9092", ["a", "b:2"]],
)
def test_hosts_are_accepted_with_and_without_ports(servers: str | list[str]) -> None:
    check_bootstrap(servers)


class OtherOffset(NamedTuple):
    """OffsetAndMetadata as in kafka-python."""

    offset: int
    metadata: str
    leader_epoch: int


async def test_integers_and_offsets_of_other_libraries_are_offsets_too(
    producer: TransactionalProducer, stuntbroker: Broker
) -> None:
    stuntbroker.create_topic("third")
    offsets: Any = {
        TopicPartition("orders", 0): numpy.int64(5),
        TopicPartition("third", 0): OtherOffset(6, "with an epoch", -1),
        TopicPartition("other", 0): [numpy.int32(7), "x"],
    }
    await producer.send_offsets_to_transaction(offsets, "group")
    await producer.commit_transaction()
    assert sorted(stuntbroker.committed("group").values()) == [5, 6, 7]


@pytest.mark.parametrize(
    ("timestamp_ms", "kind"), [("1", TypeError), (float("nan"), TypeError), (-1, ValueError), (1 << 63, ValueError)]
)
async def test_an_invalid_timestamp_is_rejected_and_the_transaction_continues(
    timestamp_ms: Any, kind: type[Exception], producer: TransactionalProducer, stuntbroker: Broker
) -> None:
    with pytest.raises(kind, match="timestamp_ms"):
        await producer.send("orders", b"refused", timestamp_ms=timestamp_ms)
    await producer.send("orders", b"taken", timestamp_ms=numpy.int64(7))
    await producer.commit_transaction()
    assert [(record.value, record.timestamp_ms) for record in stuntbroker.records("orders")] == [(b"taken", 7)]


async def test_a_timestamp_may_be_a_float(producer: TransactionalProducer, stuntbroker: Broker) -> None:
    await producer.send("orders", b"x", timestamp_ms=1_500.9)
    await producer.commit_transaction()
    assert [record.timestamp_ms for record in stuntbroker.records("orders")] == [1_500]


async def test_headers_may_be_any_sequence(producer: TransactionalProducer, stuntbroker: Broker) -> None:
    await producer.send("orders", b"x", headers=(("name", b"value"),))
    await producer.commit_transaction()
    (record,) = stuntbroker.records("orders")
    assert list(record.headers) == [("name", b"value")]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([["name", b"value"]], "headers are tuples of a str and bytes or None, not ['name', b'value']"),
        ([("name", memoryview(b"value"))], "a header is a str and bytes or None, not str and memoryview"),
        ({"n": b"value"}, "headers are tuples of a str and bytes or None, not 'n'"),
    ],
)
async def test_headers_that_cannot_be_sent_are_refused(
    producer: TransactionalProducer, headers: Any, says: str
) -> None:
    with pytest.raises(TypeError) as raised:
        await producer.send("orders", b"x", headers=headers)
    assert str(raised.value) == says


async def test_sent_records_support_asyncio_wait_and_done_callbacks(producer: TransactionalProducer) -> None:
    records = [await producer.send("orders", b"x") for _ in range(3)]
    called: list[Any] = []
    records[0].add_done_callback(called.append)
    records[0].add_done_callback(print)
    assert records[0].remove_done_callback(print) == 1
    done, pending = await asyncio.wait(records)  # type: ignore[type-var]
    assert (done, pending) == (set(records), set())
    assert called == [records[0]]
    assert records[0].remove_done_callback(called.append) == 0


async def test_send_to_a_missing_topic_names_the_topic_after_max_block_ms(stuntbroker_factory: Any) -> None:
    broker = stuntbroker_factory(**{"auto.create.topics.enable": "false"})
    options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "max_block_ms": 300}
    async with TransactionalProducer(transactional_id="id", **options) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(TransactionAbortableError) as raised:
            await producer.send("nowhere", b"x")
        assert "topic 'nowhere' is not known" in str(raised.value)
        await producer.abort_transaction()


async def test_shared_connections_that_are_closed_early_end_the_producer_with_a_recoverable_error(
    stuntbroker: Broker,
) -> None:
    stuntbroker.create_topic("orders")
    connections = Connections(bootstrap_servers=stuntbroker.bootstrap)
    await connections.start()
    producer = TransactionalProducer(connections=connections, transactional_id="id")
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"x")
    await connections.stop()
    with pytest.raises(ProduceFailedError):
        await producer.send_and_wait("orders", b"y")
    with pytest.raises(ApplicationRecoverableError, match="the connections are closed, or not started"):
        await producer.flush()
    await producer.stop()
    async with TransactionalProducer(bootstrap_servers=stuntbroker.bootstrap, transactional_id="id") as successor:
        await successor.init_transactions()
    stuntbroker.assert_committed("orders", [])


def test_the_producer_has_all_options_of_aiokafka_but_two() -> None:
    """The two are not needed: the producer uses the running loop, and negotiates versions."""
    theirs = set(inspect.signature(AIOKafkaProducer.__init__).parameters)
    ours = set(inspect.signature(TransactionalProducer.__init__).parameters) | Security.__annotations__.keys()

    assert theirs - ours == {"api_version", "loop"}


def test_the_consumer_has_all_options_of_aiokafka() -> None:
    theirs = set(inspect.signature(AIOKafkaConsumer.__init__).parameters)
    ours = set(inspect.signature(TransactionalConsumer.__init__).parameters) | ConsumerOptions.__annotations__.keys()

    assert theirs - ours == set()


@pytest.mark.parametrize("kind", [TransactionalConsumer, blocking.TransactionalConsumer])
async def test_a_consumer_without_a_group_id_is_refused_and_names_no_inner_function(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"missing .*'group_id'") as refused:
        kind("orders")
    assert "check_consumer_options" not in str(refused.value)
