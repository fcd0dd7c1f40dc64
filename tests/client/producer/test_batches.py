"""Batches that the application encodes, transactions that several producers write, and connections that they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from model_broker import ModelBroker

from stuntbroker.client import (
    ApplicationRecoverableError,
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
from stuntbroker.protocol.batches.records import CONTROL, TRANSACTIONAL, build_batch, read_header, seal, stamp_producer
from tests.kit.transactions.faults import Fault

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
        for first in (0, 10):  # In the second transaction, sequence numbers continue, or restart at 0.
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


def test_the_blocking_producer_sends_batches_in_order(broker: ModelBroker) -> None:
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
        (BATCH[:57] + b"\0\0\0\0" + BATCH[61:], "empty or a control batch"),
        (with_control_attribute(), "empty or a control batch"),
    ],
)
async def test_send_batch_rejects_invalid_batches_and_the_transaction_continues(
    broker: ModelBroker, data: bytes, message: str
) -> None:
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            with pytest.raises(ValueError, match=message):
                await producer.send_batch(data, "t", partition=0)
            with pytest.raises(ValueError, match="no partition 9"):
                await producer.send_batch(BATCH, "t", partition=9)
            await producer.send("t", b"value")

    assert broker.committed == [b"value"]


async def test_an_encoded_batch_that_is_too_large_fails_the_transaction_and_is_not_split(broker: ModelBroker) -> None:
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


@pytest.mark.parametrize("writes", ["the first too", "only those that join"])
@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("by", ["the first", "another"])
async def test_a_shared_transaction_is_ended_by_any_producer_of_it(
    by: str, end: str, writes: str, broker: ModelBroker
) -> None:
    async with producer_of(broker) as first, producer_of(broker) as last:
        await first.init_transactions()
        await first.begin_transaction()
        identity = first.share_transaction()
        if writes == "the first too":
            await first.send("t", b"first", partition=0)
            await first.flush()
        async with producer_of(broker) as writer:
            await writer.join_transaction(str(identity))
            await writer.send("t", b"joined", partition=1)
            await writer.flush()
        assert (broker.committed, broker.is_ongoing, broker.counts["EndTxn (abort)"]) == ([], True, 0)

        ending = first
        if by == "another":
            await last.join_transaction(identity)
            ending = last
        await (ending.commit_transaction() if end == "commit" else ending.abort_transaction())
        written = ([b"first"] if writes == "the first too" else []) + [b"joined"]
        expected = written if end == "commit" else []
        assert (broker.committed, broker.is_ongoing) == (expected, False)

        async with ending.transaction():
            for partition in (0, 1):
                await ending.send("t", b"next", partition=partition)
                await ending.flush()
    assert broker.committed == [*expected, b"next", b"next"]


async def test_a_shared_transaction_without_records_can_only_be_aborted(broker: ModelBroker) -> None:
    """The coordinator gives the same error if another producer has aborted the transaction, so a commit must fail."""
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        for is_commit_tried in (False, True):
            await producer.begin_transaction()
            producer.share_transaction()
            if is_commit_tried:
                with pytest.raises(CommitFailedError):
                    await producer.commit_transaction()
            await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next")

    assert broker.committed == [b"next"]


async def test_a_shared_transaction_that_another_has_aborted_is_not_reported_as_committed(broker: ModelBroker) -> None:
    async with producer_of(broker) as first, producer_of(broker) as other:
        await first.init_transactions()
        await first.begin_transaction()
        await other.join_transaction(first.share_transaction())
        await other.send_and_wait("t", b"aborted", partition=0)
        await other.abort_transaction()
        with pytest.raises((CommitFailedError, ApplicationRecoverableError)):
            await first.commit_transaction()
    assert broker.committed == []


async def test_one_batch_may_be_sent_as_often_as_one_likes(broker: ModelBroker) -> None:
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_and_wait("t", b"before", partition=0)
            builder = producer.create_batch()
            builder.append(timestamp=1, key=None, value=b"built")
            for batch in (builder, build_batch([(None, b"encoded")], 1)):
                for partition in (0, 1):
                    await producer.send_batch(batch, "t", partition=partition)

    assert sorted(broker.committed) == [b"before", b"built", b"built", b"encoded", b"encoded"]


async def test_a_producer_that_joins_looks_for_its_coordinator_until_it_is_there(broker: ModelBroker) -> None:
    original = broker.handlers[10]
    lookups = 0

    def wrong_at_first(request: Any, version: int) -> Any:
        nonlocal lookups
        lookups += 1
        answer: Any = original(request, version)
        if lookups < 3:
            answer.node_id = 99
        return answer

    broker.handlers[10] = wrong_at_first
    async with producer_of(broker) as producer:
        await producer.join_transaction(PreparedTxnState(1, 1))
    assert lookups == 3


async def test_a_duplicate_in_a_joined_transaction_is_the_batch_of_another_producer(broker: ModelBroker) -> None:
    async with producer_of(broker) as first, producer_of(broker) as second:
        await first.init_transactions()
        await first.begin_transaction()
        await first.send_and_wait("t", b"first", partition=0)
        await second.join_transaction(first.share_transaction())
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

    for option in ({"bootstrap_servers": "localhost:1"}, {"metadata_max_age_ms": 1}, {"sasl_mechanism": "PLAIN"}):
        with pytest.raises(ValueError, match="belong to Connections"):
            TransactionalProducer(connections=connections, transactional_id="id", **option)


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


def test_stamp_producer_changes_only_producer_fields_attributes_and_crc() -> None:
    data = build_batch([(b"k", b"v"), (None, None)], 99)
    before = read_header(data)

    stamp_producer(data, 7, 3, 2**31 - 1, TRANSACTIONAL)

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
