"""Records on their way: order, batches, limits, time-outs, and what `send` returns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from model_broker import ModelBroker

from stuntbroker.client import (
    AuthenticationError,
    CommitFailedError,
    FailureType,
    IllegalStateError,
    ProduceFailedError,
    State,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.client.connections.connections import Connections, Link
from stuntbroker.client.producer.sender import PAUSE_BYTES
from tests.kit.transactions.faults import Fault
from tests.kit.transactions.repeated import repeated

NOT_LEADER, TOO_LARGE, OUT_OF_ORDER, INVALID_RECORD, LOADING = 6, 10, 45, 87, 14


@pytest.fixture(params=[1, 2], ids=["level 1", "level 2"])
def broker(request: pytest.FixtureRequest) -> Iterator[ModelBroker]:
    with ModelBroker(request.param) as broker:
        yield broker


@asynccontextmanager
async def in_transaction(broker: ModelBroker, **options: Any) -> AsyncIterator[TransactionalProducer]:
    """A producer that has begun a transaction."""
    options = {"retry_backoff_ms": 1, **options}
    async with TransactionalProducer(
        bootstrap_servers=str(broker.address), transactional_id="id", **options
    ) as producer:
        await repeated(producer.init_transactions)
        await producer.begin_transaction()
        yield producer


@pytest.mark.parametrize("applied", [False, True])
async def test_batches_stay_in_order_when_the_second_of_many_has_to_be_sent_again(
    broker: ModelBroker, applied: bool
) -> None:
    broker.script = lambda request, count: Fault(NOT_LEADER, applied) if (request, count) == ("Produce", 2) else None
    async with in_transaction(broker, max_batch_size=1) as producer:
        for n in range(20):
            await producer.send("t", b"%d" % n, partition=0)
        await producer.commit_transaction()

    assert broker.committed == [b"%d" % n for n in range(20)]


async def test_records_sent_together_share_batches_and_one_produce_request(
    broker: ModelBroker,
) -> None:
    async with in_transaction(broker) as producer:
        for n in range(50):
            await producer.send("t", b"%d" % n, partition=n % 2)
        await producer.commit_transaction()

    assert broker.counts["Produce"] == 1


async def test_linger_ms_holds_a_batch_open_until_it_is_flushed(broker: ModelBroker) -> None:
    async with in_transaction(broker, linger_ms=3_600_000) as producer:
        await producer.send("t", b"a", partition=0)
        await asyncio.sleep(0.02)
        record = await producer.send("t", b"b", partition=0)
        assert not record.done() and broker.counts["Produce"] == 0
        await producer.flush()
        assert record.done() and broker.counts["Produce"] == 1


async def test_linger_ms_ends_on_its_own(broker: ModelBroker) -> None:
    async with in_transaction(broker, linger_ms=1) as producer:
        await asyncio.wait_for(_awaited(await producer.send("t", b"a", partition=0)), 10)


async def test_a_record_not_delivered_within_delivery_timeout_ms_fails_the_transaction(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(NOT_LEADER) if request == "Produce" else None
    async with in_transaction(broker, delivery_timeout_ms=30) as producer:
        record = await producer.send("t", b"a", partition=0)
        with pytest.raises(ProduceFailedError) as failed:
            await record
        assert failed.value.failure_type is FailureType.DELIVERY_FAILED
        assert (
            failed.value.args[0]
            == "Produce to t-0: not delivered within 0.03 s; last error: NOT_LEADER_OR_FOLLOWER (6)"
        )
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        broker.script = lambda request, count: None
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert broker.committed == [b"next"]


async def test_a_record_fails_at_its_delivery_time_out_before_the_late_response_arrives(broker: ModelBroker) -> None:
    gate = threading.Event()
    broker.script = lambda request, count: gate.wait(20) and None if request == "Produce" else None
    async with in_transaction(broker, delivery_timeout_ms=30) as producer:
        with pytest.raises(ProduceFailedError) as failed:
            await producer.send_and_wait("t", b"late", partition=0)
        assert failed.value.failure_type is FailureType.DELIVERY_FAILED
        gate.set()  # The broker takes the record: the transaction is aborted all the same.
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert broker.committed == [b"next"]


async def test_a_batch_that_is_too_large_is_not_split_after_its_transaction_has_failed(broker: ModelBroker) -> None:
    """Nothing would send its parts, and nothing would end the wait for them."""
    broker.script = lambda request, count: (
        {2: Fault(INVALID_RECORD), 3: Fault(TOO_LARGE)}.get(count) if request == "Produce" else None
    )
    async with in_transaction(broker, max_batch_size=100) as producer:
        await producer.send_and_wait("t", b"acknowledged", partition=0)  # From now on, several batches are in flight.
        first = await producer.send("t", b"x" * 100, partition=0)
        others = [await producer.send("t", b"%d" % n, partition=0) for n in range(2)]
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        assert first.done() and all(type(each.exception()) is ProduceFailedError for each in others)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)

    assert broker.committed == [b"next"]


async def test_a_record_for_a_partition_without_a_leader_fails_after_delivery_timeout_ms(broker: ModelBroker) -> None:
    async with in_transaction(broker, delivery_timeout_ms=30) as producer:
        broker.leaders[0] = -1
        for _ in range(2):  # The first may be one that was asked for before.
            await producer._connections.read_metadata()
        with pytest.raises(ProduceFailedError) as failed:
            await producer.send_and_wait("t", b"a", partition=0)
        assert failed.value.failure_type is FailureType.DELIVERY_FAILED


async def test_send_waits_while_the_buffer_is_full(broker: ModelBroker) -> None:
    async with in_transaction(broker, buffer_memory=1000, max_batch_size=200) as producer:
        most = 0
        for _ in range(300):
            await producer.send("t", b"x" * 100, partition=0)
            most = max(most, producer._sender.buffered)
        await producer.commit_transaction()

    assert most < 1200
    assert len(broker.committed) == 300


@pytest.mark.parametrize(("name", "kept"), [("prepare", State.PREPARED_TRANSACTION), ("commit", State.READY)])
async def test_an_error_of_a_send_that_outlives_its_transaction_is_not_fatal_for_the_producer(
    broker: ModelBroker, name: str, kept: State
) -> None:
    async with in_transaction(broker, enable_2pc=True) as producer:
        may_fail = asyncio.Event()

        async def refused(topic: str) -> tuple[int, ...]:
            await may_fail.wait()
            raise AuthenticationError("the credentials were revoked")

        await producer.send_and_wait("t", b"record", partition=0)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(producer._connections, "wait_for_topic", refused)
            waiting = asyncio.create_task(producer.send("elsewhere", b"late"))
            await asyncio.sleep(0)
            state = await (producer.prepare_transaction() if name == "prepare" else producer.commit_transaction())
            may_fail.set()
            with pytest.raises(IllegalStateError):
                await waiting
        assert producer.state is kept
        if state is not None:
            await producer.complete_transaction(state)

    assert broker.committed == [b"record"]


async def test_a_fatal_error_of_a_send_fails_the_records_that_are_not_sent_yet_at_once(broker: ModelBroker) -> None:
    async with in_transaction(broker, linger_ms=3_600_000) as producer:
        lingering = await producer.send("t", b"record", partition=0)

        async def refused(topic: str) -> tuple[int, ...]:
            raise AuthenticationError("the credentials were revoked")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(producer._connections, "wait_for_topic", refused)
            with pytest.raises(AuthenticationError):
                await producer.send("elsewhere", b"refused")

        assert producer.state is State.FATAL_ERROR
        with pytest.raises(ProduceFailedError, match="the credentials were revoked") as failed:
            lingering.result()
        assert failed.value.failure_type is FailureType.TRANSACTION_FAILED


@pytest.mark.parametrize("is_encoded", [False, True], ids=["records", "batches"])
async def test_a_loop_of_sends_lets_other_tasks_run(broker: ModelBroker, is_encoded: bool) -> None:
    async with in_transaction(broker) as producer:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        batch = producer.create_batch()
        while batch.append(timestamp=None, key=None, value=b"x" * 1000) is not None:
            pass
        await producer.send_and_wait("t", b"first", partition=0)
        task = asyncio.create_task(other())
        for number in range(2 * PAUSE_BYTES // 1000):
            if not is_encoded:
                await producer.send("t", b"x" * 1000, partition=0)
            elif not number % 10:
                await producer.send_batch(batch, "t", partition=0)
        turns_of_sends = turns
        await producer.commit_transaction()
        task.cancel()

    assert turns_of_sends >= 1


async def test_records_do_not_linger_while_the_buffer_is_full(broker: ModelBroker) -> None:
    async with in_transaction(broker, buffer_memory=500, linger_ms=3_600_000) as producer:
        for _ in range(20):
            await producer.send("t", b"x" * 100, partition=0)
        await producer.commit_transaction()

    assert len(broker.committed) == 20


async def test_a_record_that_waits_for_buffer_memory_beyond_max_block_ms_fails_the_transaction(
    broker: ModelBroker,
) -> None:
    """Otherwise, the transaction would be committed without the record."""
    broker.script = lambda request, count: Fault(NOT_LEADER) if request == "Produce" else None
    async with in_transaction(broker, buffer_memory=100, max_block_ms=30) as producer:
        await producer.send("t", b"x" * 200, partition=0)
        with pytest.raises(TransactionAbortableError, match="send\\(\\) of 'id' has not ended") as raised:
            await producer.send("t", b"x" * 200, partition=0)
        assert (str(raised.value.__cause__), raised.value.code) == (
            "ResponseError: Produce to t-0: NOT_LEADER_OR_FOLLOWER (6)",
            None,
        )
        assert producer.state is State.ABORTABLE_ERROR
        broker.script = lambda request, count: None


async def test_an_in_flight_record_fails_when_the_producer_is_stopped(broker: ModelBroker) -> None:
    async with in_transaction(broker, max_block_ms=50) as producer:
        gate = threading.Event()
        broker.script = lambda request, count: gate.wait(20) and None if request == "Produce" else None
        record = await producer.send("t", b"value", partition=0)
        while not broker.counts["Produce"]:
            await asyncio.sleep(0)
        await producer.stop(leave_open=True)
        assert isinstance(record.exception(), ProduceFailedError)
        assert producer._sender.buffered == 0
        gate.set()


async def test_split_batches_release_all_their_buffer_memory(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(TOO_LARGE) if (request, count) == ("Produce", 1) else None
    async with in_transaction(broker) as producer:
        for n in range(1000):
            await producer.send("t", b"%d" % n, partition=0)
        await producer.commit_transaction()
        assert producer._sender.buffered == 0


async def test_partitions_that_were_added_meanwhile_can_be_sent_to(broker: ModelBroker) -> None:
    async with in_transaction(broker) as producer:
        await producer.send("t", b"0", partition=0)
        with pytest.raises(ValueError, match="has no partition 2: it has 2"):
            await producer.send("t", b"2", partition=2)
        broker.leaders[2] = 1
        await producer.send("t", b"2", partition=2)
        await producer.commit_transaction()

    assert sorted(broker.committed) == [b"0", b"2"]


async def test_a_record_that_waits_while_its_transaction_ends_is_not_written_by_the_next(broker: ModelBroker) -> None:
    async with in_transaction(broker, buffer_memory=100, max_batch_size=1) as producer:
        gate = threading.Event()
        broker.script = lambda request, count: gate.wait(20) and None if (request, count) == ("Produce", 1) else None
        await producer.send("t", b"x" * 200, partition=0)
        waiting = asyncio.create_task(producer.send("t", b"of the aborted transaction", partition=0))
        while not broker.counts["Produce"]:
            await asyncio.sleep(0)
        abort = asyncio.create_task(producer.abort_transaction())
        await asyncio.sleep(0)
        gate.set()
        await abort
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError):
            await waiting
        await producer.send("t", b"next", partition=0)
        await producer.commit_transaction()

    assert broker.committed == [b"next"]


async def test_headers_count_for_the_size_of_a_record(broker: ModelBroker) -> None:
    async with in_transaction(broker, max_request_size=1000) as producer:
        record = await producer.send("t", b"value", headers=[("name", b"x" * 1000)])
        assert getattr(record.exception(), "failure_type", None) is FailureType.MESSAGE_REJECTED


async def test_sent_records_support_await_gather_and_cancellation(broker: ModelBroker) -> None:
    async with in_transaction(broker, linger_ms=3_600_000) as producer:
        records = [await producer.send("t", b"%d" % n, partition=0) for n in range(4)]
        called: list[object] = []
        records[0].add_done_callback(called.append)
        with pytest.raises(asyncio.InvalidStateError):
            records[0].result()
        waiting = asyncio.create_task(_awaited(records[1]))
        await asyncio.sleep(0)
        waiting.cancel()
        gathered = asyncio.gather(*records)
        await producer.flush()

        assert len(await gathered) == 4
        assert waiting.cancelled() and records[1].exception() is None
        assert called == [records[0]]
        assert (await records[3]).topic_partition == ("t", 0)


async def test_unsent_records_of_an_aborted_transaction_fail_and_are_not_sent(broker: ModelBroker) -> None:
    async with in_transaction(broker, linger_ms=3_600_000) as producer:
        record = await producer.send("t", b"a", partition=0)
        await producer.abort_transaction()
        failed = record.exception()
        assert failed is not None and failed.failure_type is FailureType.TRANSACTION_FAILED

    assert broker.counts["Produce"] == 0


async def test_a_cancelled_send_of_offsets_fails_the_transaction(broker: ModelBroker) -> None:
    """The producer cannot know whether the offsets are part of the transaction."""
    broker.script = lambda request, count: Fault(LOADING) if request == "TxnOffsetCommit" else None
    async with in_transaction(broker) as producer:
        sending = asyncio.create_task(producer.send_offsets_to_transaction({("t", 0): 1}, "group"))
        await asyncio.sleep(0.02)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()


async def test_offsets_that_time_out_make_the_transaction_abortable(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(LOADING) if request == "TxnOffsetCommit" else None
    async with in_transaction(broker, max_block_ms=30) as producer:
        with pytest.raises(TransactionAbortableError):
            await producer.send_offsets_to_transaction({("t", 0): 1}, "group")
        assert producer.state is State.ABORTABLE_ERROR


async def test_a_cancelled_commit_continues_and_is_waited_for_by_the_next_commit(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(LOADING) if request == "EndTxn (commit)" else None
    async with in_transaction(broker) as producer:
        await producer.send("t", b"a", partition=0)
        committing = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0.02)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        broker.script = lambda request, count: None
        await producer.commit_transaction()

    assert broker.committed == [b"a"]


async def test_an_error_of_a_serializer_or_partitioner_is_raised_and_the_transaction_continues(
    broker: ModelBroker,
) -> None:
    async with in_transaction(
        broker,
        value_serializer=lambda value: value.encode(),
        partitioner=lambda key, partitions, _: partitions.sort() or partitions[len(key)],
    ) as producer:
        with pytest.raises(AttributeError):
            await producer.send("t", 5, key=b"")
        with pytest.raises(IndexError):
            await producer.send("t", "five", key=b"12345")
        with pytest.raises(ValueError, match="topic 't' has no partition 9: it has 2"):
            await producer.send("t", "a", partition=9)
        with pytest.raises(TypeError):
            await producer.send("t", "a", key="no bytes", partition=0)
        producer._dispatcher._partitioner = lambda key, partitions, _: 7
        with pytest.raises(ValueError, match="the partitioner chose 7: topic 't' has 2 partitions"):
            await producer.send("t", "a")
        producer._dispatcher._partitioner = lambda key, partitions, _: partitions[len(key)]
        await producer.send("t", "a", key=b"1")
        await producer.commit_transaction()

    assert broker.committed == [b"a"]


class Number:
    """An integer of another library's, such as NumPy's."""

    def __index__(self) -> int:
        return 1


async def test_send_accepts_all_bytes_and_integer_types_and_rejects_others_harmlessly(broker: ModelBroker) -> None:
    async with in_transaction(broker) as producer:
        await producer.send("t", b"value", partition=Number())  # type: ignore[arg-type]  # Metadata is not known yet.
        for partition in (1.0, "1"):
            with pytest.raises(TypeError):
                await producer.send("t", b"refused", partition=partition)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await producer.send("t", b"refused", partition=1, timestamp_ms="now")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not contiguous"):
            await producer.send("t", memoryview(b"refused")[::2], partition=1)
        for kind in (bytes, bytearray, memoryview):
            record = await producer.send("t", kind(b"value"), key=kind(b"key"), partition=Number())  # type: ignore[arg-type]
            assert (await record).partition == 1
        await producer.commit_transaction()

    assert broker.committed == [b"value"] * 4


async def test_a_record_over_max_request_size_is_rejected_and_fails_the_transaction(broker: ModelBroker) -> None:
    async with in_transaction(broker, max_request_size=1000) as producer:
        record = await producer.send("t", b"x" * 2000, partition=0)
        with pytest.raises(ProduceFailedError) as failed:
            await record
        assert failed.value.failure_type is FailureType.MESSAGE_REJECTED
        with pytest.raises(CommitFailedError, match="larger than max_request_size, 1000"):
            await producer.commit_transaction()


async def test_a_batch_in_doubt_makes_the_next_transaction_use_a_new_epoch_under_version_1() -> None:
    """KIP-360: the Produce request may still be in flight. Under version 2, each EndTxn raises the epoch anyway."""
    with ModelBroker(1) as broker:
        async with in_transaction(broker) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            broker.script = lambda request, count: Fault(OUT_OF_ORDER) if request == "Produce" else None
            with pytest.raises(ProduceFailedError):
                await producer.send_and_wait("t", b"b", partition=0)
            broker.script = lambda request, count: None
            before = broker.epoch
            await producer.abort_transaction()
            assert broker.epoch == before + 1
            async with producer.transaction():
                await producer.send("t", b"c", partition=0)

    assert broker.committed == [b"c"]


@pytest.mark.parametrize("commit", [True, False])
async def test_an_end_without_a_response_makes_the_next_transaction_use_a_new_epoch_under_version_1(
    commit: bool,
) -> None:
    """A late EndTxn could commit the first half of the next transaction; under version 2, its epoch is outdated."""
    with ModelBroker(1) as broker:
        lost = f"EndTxn ({'commit' if commit else 'abort'})"
        async with in_transaction(broker) as producer:
            broker.script = lambda request, count: Fault(None) if (request, count) == (lost, 1) else None
            before = broker.epoch
            await producer.send_and_wait("t", b"first", partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
            assert broker.counts[lost] == 2
            assert (broker.epoch, producer.identity.producer_epoch) == (before + 1, before + 1)
            async with producer.transaction():
                await producer.send("t", b"second", partition=0)
            assert broker.epoch == before + 1

    assert broker.committed == ([b"first", b"second"] if commit else [b"second"])


async def test_a_cluster_that_is_upgraded_to_version_2_is_followed_with_a_new_epoch() -> None:
    with ModelBroker(1) as broker:
        async with in_transaction(broker) as producer:
            await producer.send("t", b"a", partition=0)
            broker.level = 2
            broker.script = lambda request, count: Fault(None) if (request, count) == ("EndTxn (commit)", 1) else None
            await producer.commit_transaction()
            added = broker.counts["AddPartitionsToTxn"]
            async with producer.transaction():
                await producer.send("t", b"b", partition=0)

    assert broker.committed == [b"a", b"b"]
    assert broker.counts["AddPartitionsToTxn"] == added == 1


async def _awaited(record: Any) -> Any:
    return await record


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"transactional_id": ""}, ValueError, "transactional_id is empty"),
        ({"enable_2pc": True, "transaction_timeout_ms": 1}, ValueError, "transaction_timeout_ms cannot be set"),
        ({"compression_type": "brotli"}, ValueError, "'brotli' is none of gzip, snappy, lz4, zstd, None"),
        ({"linger": 1}, TypeError, "unknown option 'linger'"),
        ({"transaction_timeout_ms": 0}, ValueError, "transaction_timeout_ms is 0: it has to be at least 1"),
        ({"buffer_memory": 0}, ValueError, "buffer_memory is 0"),
        ({"linger_ms": -1}, ValueError, "linger_ms is -1: it has to be at least 0"),
        ({"security_protocol": "TLS"}, ValueError, "'TLS' is none of PLAINTEXT, SSL"),
        ({"security_protocol": "SSL"}, ValueError, "SSL needs an ssl_context"),
        ({"enable_2pc": "false"}, TypeError, "enable_2pc is 'false': it has to be True or False"),
        ({"enable_idempotence": "false"}, TypeError, "enable_idempotence is 'false'"),
        ({"max_block_ms": True}, TypeError, "max_block_ms is True: it has to be a whole number"),
        ({"tracer": "x"}, TypeError, "tracer is 'x': it has to be a tracer"),
        ({"on_measurement": _awaited}, TypeError, "on_measurement is .*: it is called, not awaited"),
        ({"security_protocol": "SSL", "ssl_context": "ca.pem"}, TypeError, "ssl_context is 'ca.pem'"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "alice", "sasl_plain_password": 5},
            TypeError,
            "sasl_plain_password is of type int: it has to be a text",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            ValueError,
            "PLAIN needs sasl_plain_username and sasl_plain_password",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TransactionalProducer(**{"transactional_id": "id", **options})


async def test_the_partition_of_a_refused_record_takes_the_next_transactions(broker: ModelBroker) -> None:
    broker.script = lambda request, count: Fault(INVALID_RECORD) if (request, count) == ("Produce", 1) else None
    async with in_transaction(broker) as producer:
        with pytest.raises(ProduceFailedError):
            await producer.send_and_wait("t", b"refused", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"committed", partition=0)

    assert broker.committed == [b"committed"]


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("back_off_ms", [1, 7])
def test_batches_that_wait_for_a_timer_are_sent_even_when_it_fires_early(
    broker: ModelBroker, make_loop: Callable[[], asyncio.AbstractEventLoop], back_off_ms: int
) -> None:
    """uvloop's clock has milliseconds, and its timers fire up to a millisecond early."""

    async def run() -> None:
        async with in_transaction(broker, retry_backoff_ms=back_off_ms, linger_ms=back_off_ms) as producer:
            for n in range(40):
                record = await producer.send("t", b"%d" % n, partition=0)
                async with asyncio.timeout(20):
                    await record
            await producer.commit_transaction()

    broker.script = lambda request, count: Fault(NOT_LEADER) if request == "Produce" and count % 2 else None
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run())

    assert broker.committed == [b"%d" % n for n in range(40)]


async def test_a_batch_that_expires_while_its_connection_is_opened_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    link, may_open = Connections.link, asyncio.Event()

    async def link_later(connections: Connections, node_id: int) -> Link:
        await may_open.wait()
        return await link(connections, node_id)

    with ModelBroker(2) as broker:
        async with in_transaction(broker, delivery_timeout_ms=30) as producer:
            with monkeypatch.context() as patched:
                patched.setattr(Connections, "open_link", lambda connections, node_id: None)
                patched.setattr(Connections, "link", link_later)
                expired = await producer.send("t", b"late", partition=0)
                with pytest.raises(ProduceFailedError):
                    await expired
                may_open.set()
                await producer.abort_transaction()
            assert broker.counts["Produce"] == 0

            await producer.begin_transaction()
            await producer.send("t", b"next", partition=0)
            await producer.commit_transaction()
    assert broker.committed == [b"next"]
