"""`--durability power`: responses wait for the sync and keep their order, and a failed sync stops the broker.

The sync thread is replaced by a list, so that nothing is synced until the test says so.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from struct import unpack_from
from typing import Any

import pytest

from stuntbroker.broker.handlers import k00_produce, k26_end_txn
from stuntbroker.broker.produce.long_produce import PARTITIONS_AT_ONCE
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.disk_rig import TXN, Disk, numbers, owner_of, produce
from tests.kit.produce_and_fetch import fetch
from tests.kit.rig import START_MS, Client, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC, batch


async def test_a_response_waits_until_the_data_that_it_acknowledges_is_synced(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(produce(batch()), 9))
        assert numbers(client) == []
        disk.sync()
        assert numbers(client) == [7]
        disk.drain()


async def test_one_sync_serves_all_that_wait(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        clients = [rig.client() for _ in range(20)]
        for client in clients:
            client.feed(frame(produce(batch()), 9))
        disk.drain()
        assert [numbers(client) for client in clients] == [[7]] * 20
        assert disk.syncs == 2  # One for the first request, one for the others.


async def test_a_duplicate_batch_waits_for_the_sync_of_the_original(data_dir: Path) -> None:
    """A retry on another connection is recognised as a duplicate, and its response waits for the sync of the first batch."""
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        writer, restarted = rig.client(), rig.client()
        producer_id, epoch = owner_of(writer, disk)
        records = bytearray(batch(2, producer_id, epoch, 0))
        writer.feed(frame(produce(bytes(records), TXN), 12))
        disk.sync()  # The transaction is synced, the batch is not.
        assert numbers(writer) == []
        restarted.feed(frame(produce(bytes(records), TXN), 12))
        assert numbers(restarted) == []
        disk.drain()
        assert (numbers(writer), numbers(restarted)) == ([7], [7])
        assert rig.log(TOPIC, 0).next_offset == 2


async def test_records_are_read_when_they_are_on_the_disk(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        disk.drain()
        writer, reader = rig.client(), rig.client()
        writer.feed(frame(produce(batch()), 9))
        reader.feed(frame(fetch(), 12))
        assert (numbers(writer), numbers(reader)) == ([], [])
        disk.drain()
        assert (numbers(writer), numbers(reader)) == ([7], [7])


async def test_pipelined_requests_of_a_transaction_are_answered_once_each_and_in_order(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        producer_id, epoch = owner_of(client, disk)
        stream = b""
        for number in range(10):
            stream += frame(produce(batch(1, producer_id, epoch + number, 0), TXN), 12, correlation=3 * number)
            stream += frame(EndTxnRequest(TXN, producer_id, epoch + number, True), 5, correlation=3 * number + 1)
            stream += frame(ApiVersionsRequest(), 0, correlation=3 * number + 2)
        client.feed(stream)
        disk.drain()
        answers = client.answers()
        assert [unpack_from(">i", answer)[0] for answer in answers] == list(range(30))
        errors = [decode(a, 0, 12).responses[0].partition_responses[0].error_code for a in answers[::3]]
        errors += [decode(a, 26, 5).error_code for a in answers[1::3]]
        assert errors == [0] * 20


async def test_a_large_request_that_waits_is_not_overwritten_by_the_next_request(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = owner_of(client, disk)
        client.ask(HeartbeatRequest("g" * 32_000, 1, "m" * 32_000), 0)
        assert len(client.connection.get_buffer(-1)) > 60_000  # One read per frame.
        data = batch(2, *owner, 0, size=10_000)
        client.feed(frame(produce(data, TXN), 12))
        client.feed(frame(ApiVersionsRequest(), 0, client_id=b"z" * 30_000, correlation=8))
        disk.drain()
        assert numbers(client) == [7, 8]
        ((_, stored),) = rig.log(TOPIC, 0).batches()
        assert bytes(stored)[21:] == data[21:]


async def test_requests_of_a_busy_id_wait_in_its_mailbox_and_are_answered_in_order(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC, 3)
        clients = [rig.client() for _ in range(3)]
        producer_id, epoch = owner_of(clients[0], disk)
        for index, client in enumerate(clients):
            topics = [AddPartitionsToTxnTopic(TOPIC, [index])]
            client.feed(frame(AddPartitionsToTxnRequest([], TXN, producer_id, epoch, topics), 3))
        delayed = rig.client()
        delayed.feed(frame(EndTxnRequest(TXN, producer_id, epoch, True), 3))
        order: list[int] = []
        while disk.requests:
            disk.sync()
            order += [number for number, client in enumerate([*clients, delayed]) if numbers(client)]
        assert order == [0, 1, 2, 3]
        assert rig.actor(TXN).txn.phase.name == "COMPLETE_COMMIT"
        assert [rig.log(TOPIC, index).next_offset for index in range(3)] == [1, 1, 1]


async def test_a_journal_failure_of_a_request_in_the_mailbox_fails_no_other_request(
    data_dir: Path, monkeypatch: Any
) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        first, second, third = (rig.client() for _ in range(3))
        producer_id, epoch = owner_of(first, disk)
        other = owner_of(third, disk, "other")
        topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
        first.feed(frame(AddPartitionsToTxnRequest([], TXN, producer_id, epoch, topics), 3))
        second.feed(frame(EndTxnRequest(TXN, producer_id, epoch, True), 3))
        third.feed(frame(AddPartitionsToTxnRequest([], "other", *other, topics), 3))
        # Simulates a failure to reserve producer ids. (A failed write to the log would stop the broker.)
        append = type(rig.broker.transactions).append
        refused: list[Any] = []

        def full(self: Any, actor: Any, txn: Any, *remaining: Any, **more: Any) -> bool:
            if txn.transactional_id == TXN and not refused:
                refused.append(txn)
                raise StorageError("no space is left in the journal")
            return bool(append(self, actor, txn, *remaining, **more))

        monkeypatch.setattr(type(rig.broker.transactions), "append", full)
        disk.drain()
        assert refused
        assert numbers(first) == [7]
        assert numbers(third) == [7]
        (answer,) = second.answers()
        assert decode(answer, 26, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        second.feed(frame(EndTxnRequest(TXN, producer_id, epoch, True), 3))
        disk.drain()
        assert decode(second.answers()[0], 26, 3).error_code == 0


async def test_a_request_in_the_mailbox_whose_continuation_crashes_ends_alone(data_dir: Path, monkeypatch: Any) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        first, second, third = (rig.client() for _ in range(3))
        producer_id, epoch = owner_of(first, disk)
        topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
        first.feed(frame(AddPartitionsToTxnRequest([], TXN, producer_id, epoch, topics), 3))
        second.feed(frame(EndTxnRequest(TXN, producer_id, epoch + 1, True), 3))
        third.feed(frame(AddPartitionsToTxnRequest([], TXN, producer_id, epoch, topics), 3))

        def crash(*_: Any) -> int:
            raise RuntimeError("stands for a bug")

        monkeypatch.setattr(k26_end_txn, "coordinator_code", crash)  # Called for the wrong epoch of `second`.
        disk.drain()
        assert (numbers(first), numbers(second), numbers(third)) == ([7], [], [7])
        assert [client.transport.is_closing() for client in (first, second, third)] == [False, True, False]
        assert [name for name, _ in rig.events.kept].count("request_crashed") == 1
        rig.events.kept.clear()


async def test_a_part_of_a_long_request_whose_continuation_crashes_ends_the_whole_request_alone(
    data_dir: Path, monkeypatch: Any
) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC, PARTITIONS_AT_ONCE + 1)
        first, second = rig.client(), rig.client()
        producer_id, epoch = owner_of(first, disk)
        data = bytes(batch(1, producer_id, epoch + 1, 0))
        parts = [PartitionProduceData(index, data) for index in range(PARTITIONS_AT_ONCE + 1)]
        first.feed(
            frame(AddPartitionsToTxnRequest([], TXN, producer_id, epoch, [AddPartitionsToTxnTopic(TOPIC, [0])]), 3)
        )
        second.feed(frame(ProduceRequest(TXN, -1, 1_000, [TopicProduceData(TOPIC, partition_data=parts)]), 12))
        await turn(PARTITIONS_AT_ONCE + 10)  # Until the first part waits for the coordinator.

        def crash(*_: Any) -> int:
            raise RuntimeError("stands for a bug")

        monkeypatch.setattr(k00_produce, "leader_code", crash)  # Called for the wrong epoch.
        disk.drain()
        await turn(5)
        assert numbers(first) == [7]
        assert (second.answers(), second.transport.is_closing()) == ([], True)
        assert [facts["api_key"] for name, facts in rig.events.kept if name == "request_crashed"] == [0]
        assert len(rig.broker.long_requests) == 0
        rig.events.kept.clear()


async def test_a_client_that_leaves_while_the_disk_syncs_is_not_answered(data_dir: Path) -> None:
    disk = Disk()
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(produce(batch()), 9))
        client.disconnect()
        disk.drain()
        assert not client.transport.sent


@pytest.mark.parametrize("more", [False, True])
async def test_a_sync_that_fails_ends_the_broker_and_the_answers_are_never_sent(more: bool, data_dir: Path) -> None:
    disk = Disk()
    messages: list[str] = []
    async with running_rig(data_dir, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        rig.broker.failed = messages.append
        first, second = rig.client(), rig.client()
        first.feed(frame(produce(batch()), 9))
        if more:
            second.feed(frame(produce(batch()), 9))
        disk.refuse()
        if not more:
            second.feed(frame(produce(batch()), 9))
        assert messages == ["the disk refused a sync: [Errno 5] Input/output error"]
        assert not disk.requests  # A later sync would not prove anything.
        assert (numbers(first), numbers(second)) == ([], [])
        assert rig.events.names() == ["sync_failed"]
    assert not (data_dir / ".kafka_cleanshutdown").exists()
    async with running_rig(data_dir) as rig:  # Recovers as after a crash.
        assert rig.log(TOPIC, 0).next_offset == 4


# --- failed writes: the same for both durabilities

DURABILITIES = ("process", "power")
NO_SPACE = "cannot write to {}: No space left on device"


class FullDisk:
    """From now on, writes to the partition logs of one topic fail for lack of space."""

    def __init__(self, disk: MemoryDisk, topic: str) -> None:
        self.topic = topic
        self.refused: list[str] = []
        disk.on_call = self

    def __call__(self, call: str, path: str) -> int | None:
        if call != "write" or f"/{self.topic}-" not in path:
            return None
        self.refused.append(path)
        return errno.ENOSPC


def write(client: Client, disk: Disk | None, request: Any, version: int) -> list[int]:
    """Send a request and complete all syncs; return the correlation ids of the responses."""
    client.feed(frame(request, version))
    client.broker.turn.end()
    if disk is not None:
        disk.drain()
    return numbers(client)


@pytest.mark.parametrize("size", [3, 20_000], ids=["small", "large"])
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_a_failed_write_stops_the_broker_and_no_later_request_is_answered(durability: str, size: int) -> None:
    messages: list[str] = []
    disk, files = Disk() if durability == "power" else None, MemoryDisk()
    async with running_rig(durability=durability, executor=disk, disk=files) as rig:
        rig.topic(TOPIC)
        rig.topic("other")
        rig.broker.failed = messages.append
        client, other = rig.client(), rig.client()
        assert write(client, disk, produce(batch(size=size)), 9) == [7]
        full = FullDisk(files, TOPIC)
        assert write(client, disk, produce(batch(size=size)), 9) == []
        files.on_call = None
        assert messages == [NO_SPACE.format(full.refused[0])]
        for request, version in ((produce(batch(size=size)), 9), (produce(batch(size=size), topic="other"), 9)):
            assert write(other, disk, request, version) == []
        assert len(messages) == 1
    assert "/data/.kafka_cleanshutdown" not in files.files()
    async with running_rig(disk=files) as rig:
        assert rig.log(TOPIC, 0).last_stable_offset >= 2


@pytest.mark.parametrize("where", [TOPIC, "__transaction_state"])
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_an_end_of_a_transaction_that_cannot_be_written_is_not_answered_and_is_repaired_at_the_next_start(
    durability: str, where: str
) -> None:
    """The log shows after a restart whether the transaction was prepared. A retry of EndTxn then succeeds and is never fenced."""
    messages: list[str] = []
    disk, files = Disk() if durability == "power" else None, MemoryDisk()
    properties = {"transaction.state.log.num.partitions": "1"}
    async with running_rig(None, properties, durability=durability, executor=disk, disk=files) as rig:
        rig.topic(TOPIC)
        rig.broker.failed = messages.append
        client, restarted = rig.client(), rig.client()
        owner = owner_of(client, disk)
        assert write(client, disk, produce(batch(1, *owner, 0), TXN), 12) == [7]
        FullDisk(files, where)
        for each in (client, restarted):
            assert write(each, disk, EndTxnRequest(TXN, *owner, True), 5) == []
        files.on_call = None
        assert len(messages) == 1
    async with running_rig(None, properties, disk=files) as rig:
        client = rig.client()
        decided = rig.actor(TXN).txn.phase.name != "ONGOING"
        assert decided == (where == TOPIC)
        answer = client.ask(EndTxnRequest(TXN, *owner, True), 5)
        assert (answer.error_code, answer.producer_epoch) == (0, owner[1] + 1)
        log = rig.log(TOPIC, 0)
        assert log.last_stable_offset == log.next_offset
        assert [header.control for header, _ in log.batches()] == [False, True]


async def test_a_journal_whose_sync_fails_ends_the_broker_too() -> None:
    """Unlike after a failed write, it is unknown whether the line is on the disk."""
    messages: list[str] = []
    disk, files = Disk(), MemoryDisk()
    async with running_rig(durability="power", executor=disk, disk=files) as rig:
        rig.topic(TOPIC)
        rig.broker.failed = messages.append
        files.on_call = lambda call, path: errno.EIO if call == "sync" else None
        topics = [CreatableTopic("new", 1, 1)]
        assert write(rig.client(), disk, CreateTopicsRequest(topics), 7) == []
        files.on_call = None
        assert messages == ["cannot sync /data/metadata.journal: Input/output error"]
        assert write(rig.client(), disk, produce(batch()), 9) == []


async def test_a_transactional_id_whose_tombstone_cannot_be_written_does_not_expire() -> None:
    messages: list[str] = []
    disk, files = Disk(), MemoryDisk()
    properties = {"transactional.id.expiration.ms": "1"}
    async with running_rig(None, properties, durability="power", executor=disk, disk=files) as rig:
        rig.broker.failed = messages.append
        owner_of(rig.client(), disk)
        FullDisk(files, "__transaction_state")
        rig.pass_time(rig.broker.config["transaction.remove.expired.transaction.cleanup.interval.ms"])
        assert (len(messages), rig.events.names().count("write_failed")) == (1, 1)
        assert rig.actor(TXN) is not None


# --- durability process: one write a turn


async def test_responses_to_unwritten_appends_are_not_sent_when_a_read_finds_the_disk_full() -> None:
    messages: list[str] = []
    files = MemoryDisk()
    async with running_rig(disk=files) as rig:
        rig.topic(TOPIC)
        rig.broker.failed = messages.append
        writer, reader = rig.client(), rig.client()
        writer.feed(frame(produce(batch()), 9))
        files.capacity = files.used
        reader.feed(frame(ApiVersionsRequest(), 0))  # Flushes appended batches first, as a request may read files.
        assert reader.transport.closed
        assert numbers(writer) == []
        assert [each.rsplit(": ", 1)[1] for each in messages] == [os.strerror(errno.ENOSPC)]


async def test_a_complete_record_on_a_full_disk_stops_the_broker_with_one_log_event() -> None:
    """Without another write to its file, the Complete record is written by the next periodic check of transactions."""
    messages: list[str] = []
    files = MemoryDisk()
    async with running_rig(disk=files) as rig:
        rig.topic(TOPIC)
        rig.broker.failed = messages.append
        client = rig.client()
        owner = owner_of(client, None)
        assert write(client, None, produce(batch(1, *owner, 0), TXN), 12) == [7]
        assert write(client, None, EndTxnRequest(TXN, *owner, True), 5) == [7]
        FullDisk(files, "__transaction_state")
        rig.pass_time(rig.broker.config["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
        assert (len(messages), rig.events.names().count("write_failed")) == (1, 1)


@pytest.mark.parametrize("size", [10, LARGE_BATCH_SIZE])
@pytest.mark.parametrize("written_before", [False, True])
async def test_a_topic_deleted_while_its_produce_waits_for_a_sync_gets_no_records(
    written_before: bool, size: int, data_dir: Path
) -> None:
    disk = Disk()
    async with running_rig(data_dir, {"message.max.bytes": str(1 << 26)}, durability="power", executor=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        if written_before:
            client.feed(frame(produce(batch(1)), 12))
            disk.drain()
            client.answers()
        producer_id, epoch = owner_of(client, disk)
        data = build_batch(
            [(None, bytes(size))],
            START_MS,
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )
        folder = rig.log(TOPIC, 0).folder
        client.feed(frame(produce(bytes(data), TXN), 12))
        while not disk.requests:
            await turn(1)
        rig.broker.topics.delete(rig.broker.topics.get(TOPIC))
        while client.connection.is_busy:
            disk.drain()
            await turn(1)
        (answer,) = client.answers()
        response = decode(answer, 0, 12).responses[0].partition_responses[0]
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not rig.broker.broken and not os.path.exists(folder)
        rig.topic(TOPIC)


async def test_a_file_that_was_closed_since_it_was_written_is_synced_before_the_answer() -> None:
    """The file may be closed to limit open files, and a new segment may follow it; it must be synced nevertheless."""
    disk, files, synced = Disk(), MemoryDisk(), set()

    def note(call: str, path: str) -> None:
        if call in ("sync", "sync_path"):
            synced.add(path)

    files.on_call = note
    async with running_rig(durability="power", executor=disk, disk=files) as rig:
        rig.topic(TOPIC)
        rig.topic("other")
        busy, client = rig.client(), rig.client()
        busy.feed(frame(produce(batch(1), topic="other"), 9))
        rig.broker.turn.end()
        client.feed(frame(produce(batch(1)), 9))
        rig.broker.turn.end()
        log = rig.log(TOPIC, 0)
        (first,) = log.segments
        first.close()
        log.roll()
        disk.drain()
        assert len(client.answers()) == 1
        assert f"{first.path}.log" in synced
