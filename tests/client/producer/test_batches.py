"""Batches that the application encodes, transactions that several producers write, and connections that they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from model_broker import Fault, ModelBroker

from stuntbroker.client import (
    CommitFailedError,
    Connections,
    FailureType,
    IllegalStateError,
    PreparedTxnState,
    ProduceFailedError,
    State,
    TransactionalProducer,
    blocking,
)
from stuntbroker.client.producer.batches import stamp
from stuntbroker.protocol.batches.records import CONTROL, build_batch, read_header, seal

MESSAGE_TOO_LARGE, DUPLICATE_SEQUENCE = 10, 46
BATCH = bytes(build_batch([(None, b"value")], 1))


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def broker(request: pytest.FixtureRequest) -> Iterator[ModelBroker]:
    with ModelBroker(request.param) as broker:
        yield broker


def producer_of(broker: ModelBroker, **options: Any) -> TransactionalProducer:
    return TransactionalProducer(
        bootstrap_servers=str(broker.address), transactional_id="id", retry_backoff_ms=1, **options
    )


async def test_batches_and_records_of_a_partition_stay_in_the_order_of_the_calls(broker: ModelBroker) -> None:
    async with producer_of(broker, compression_type="gzip", linger_ms=60_000) as producer:
        await producer.init_transactions()
        for first in (0, 10):  # Sequences go on in the second transaction, or begin anew.
            async with producer.transaction():
                await producer.send("t", b"%d" % first, partition=0)
                for data in (bytes, bytearray, memoryview):
                    encoded = data(build_batch([(b"k", b"%d" % (first + n)) for n in (1, 2)], 5))
                    sent = await producer.send_batch(encoded, "t", partition=0)
                await producer.send("t", b"%d" % (first + 3), partition=0)
                builder = producer.create_batch()
                assert builder.append(timestamp=7, key=b"k", value=b"%d" % (first + 4)) is not None
                assert (await sent).timestamp == 5
                assert (await (await producer.send_batch(builder, "t", partition=0))).offset == 7

    expected = [first + n for first in (0, 10) for n in (0, 1, 2, 1, 2, 1, 2, 3, 4)]
    assert [int(value) for value in broker.committed] == expected


def test_the_blocking_twin_sends_batches_in_order_too(broker: ModelBroker) -> None:
    with blocking.TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id") as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(0, 40, 2):
                producer.send("t", b"%d" % number, partition=0)
                sent = producer.send_batch(
                    build_batch([(None, b"%d" % (number + 1))], 1, attributes=0), "t", partition=0
                )
            assert sent.result().offset == 7
            builder = producer.create_batch()
            builder.append(timestamp=7, key=None, value=b"40")
            producer.send_batch(builder, "t", partition=0)

    assert [int(value) for value in broker.committed] == list(range(41))


def with_control_attribute() -> bytes:
    data = build_batch([(None, b"value")], 1, attributes=CONTROL)
    seal(data)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are no record batch"),
        (BATCH[:-1], "bytes with a record batch of"),
        (BATCH + BATCH, "give one whole batch"),
        (BATCH[:16] + b"\x01" + BATCH[17:], "magic 1"),
        (BATCH[:57] + b"\0\0\0\0" + BATCH[61:], "without records"),
        (with_control_attribute(), "without records of an application"),
    ],
)
async def test_what_is_no_batch_is_refused_and_costs_nothing(broker: ModelBroker, data: bytes, message: str) -> None:
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            with pytest.raises(ValueError, match=message):
                await producer.send_batch(data, "t", partition=0)
            with pytest.raises(ValueError, match="no partition 9"):
                await producer.send_batch(BATCH, "t", partition=9)
            await producer.send("t", b"value")

    assert broker.committed == [b"value"]


async def test_an_encoded_batch_that_is_too_large_costs_the_transaction_and_is_not_split(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(MESSAGE_TOO_LARGE) if (request, count) == ("Produce", 1) else None
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        sent = await producer.send_batch(build_batch([(None, b"a"), (None, b"b")], 1), "t", partition=0)
        with pytest.raises(ProduceFailedError) as failed:
            await sent
        assert failed.value.failure_type is FailureType.MESSAGE_REJECTED
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert broker.counts["Produce"] == 1
        async with producer.transaction():
            await producer.send_batch(BATCH, "t", partition=0)

    assert broker.committed == [b"value"]


async def test_producers_that_join_write_one_transaction_which_any_of_them_ends(broker: ModelBroker) -> None:
    async with producer_of(broker) as first, producer_of(broker) as last:
        await first.init_transactions()
        await first.begin_transaction()
        for partition in (0, 1):
            async with producer_of(broker) as writer:
                await writer.join_transaction(first.identity)
                await writer.send("t", b"%d" % partition, partition=partition)
                await writer.flush()
        assert (broker.committed, broker.is_ongoing) == ([], True)
        assert broker.counts["EndTxn (abort)"] == 0

        await last.join_transaction(first.identity)
        await last.commit_transaction()
        assert broker.committed == [b"0", b"1"]

        async with last.transaction():
            await last.send("t", b"2", partition=0)
    assert broker.committed == [b"0", b"1", b"2"]


async def test_a_duplicate_in_a_joined_transaction_is_the_batch_of_another_producer(broker: ModelBroker) -> None:
    async with producer_of(broker) as first, producer_of(broker) as second:
        await first.init_transactions()
        await first.begin_transaction()
        await first.send_and_wait("t", b"first", partition=0)
        await second.join_transaction(first.identity)
        broker.script = lambda request, count: Fault(DUPLICATE_SEQUENCE) if request == "Produce" else None
        await second.send("t", b"second", partition=0)
        with pytest.raises(CommitFailedError, match="DUPLICATE_SEQUENCE_NUMBER"):
            await second.commit_transaction()


async def test_producers_share_connections_and_leave_them_open(broker: ModelBroker) -> None:
    async with Connections(bootstrap_servers=str(broker.address), retry_backoff_ms=1) as connections:
        for number in range(3):
            producer = TransactionalProducer(connections=connections, transactional_id="id")
            async with producer:
                await producer.init_transactions()
                async with producer.transaction():
                    await producer.send("t", b"%d" % number)
            assert producer.state is State.CLOSED
    assert broker.committed == [b"0", b"1", b"2"]

    with pytest.raises(ValueError, match="are those of the connections"):
        TransactionalProducer(connections=connections, transactional_id="id", bootstrap_servers="localhost:1")


def test_blocking_producers_share_connections_and_their_thread(broker: ModelBroker) -> None:
    with blocking.Connections(bootstrap_servers=str(broker.address)) as connections:
        for number in range(3):
            with blocking.TransactionalProducer(connections=connections, transactional_id="id") as producer:
                producer.init_transactions()
                with producer.transaction():
                    producer.send("t", b"%d" % number)
        thread = connections.thread
        assert thread.is_running
    assert not thread.is_running
    assert broker.committed == [b"0", b"1", b"2"]

    with pytest.raises(IllegalStateError):
        blocking.TransactionalProducer(connections=connections, transactional_id="id")


def test_stamping_a_batch_changes_what_says_whose_it_is_and_nothing_else() -> None:
    data = build_batch([(b"k", b"v"), (None, None)], 99)
    before = read_header(data)

    stamp(data, PreparedTxnState(7, 3), 2**31 - 1)

    after = read_header(data)
    changed = {name for name in before._fields if getattr(before, name) != getattr(after, name)}
    assert changed == {"attributes", "producer_id", "producer_epoch", "base_sequence", "crc"}
    assert (after.transactional, after.producer_id, after.producer_epoch, after.base_sequence) == (
        True,
        7,
        3,
        2**31 - 1,
    )
    sealed = bytes(data)
    seal(data)
    assert bytes(data) == sealed
