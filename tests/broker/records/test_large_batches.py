"""A batch above LARGE_BATCH_SIZE is checked and written in pieces, with the same result in the log as in one write."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.batches.check import RECORDS_AT_ONCE, records_fill, records_fill_in_steps
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    build_batch,
    read_header,
    read_records,
    seal,
)
from stuntbroker.protocol.data_folder import LARGE_BATCH_SUFFIX
from stuntbroker.protocol.errors import ErrorCode as E
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE, PIECE_SIZE
from stuntbroker.storage.memory_disk import MemoryDisk, OnCall
from tests.kit.bystander import Bystander
from tests.kit.groups.group_requests import init, pair
from tests.kit.rig import KEYS, START_MS, Client, Rig, SyncedAtOnce, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC

PROPERTIES = {"message.max.bytes": str(64 << 20)}
SIZE = LARGE_BATCH_SIZE + PIECE_SIZE + 7
EXECUTORS = {"process": None, "power": SyncedAtOnce()}


def large(attributes: int = 0, size: int = SIZE, **producer: int) -> bytearray:
    return build_batch([(b"k", b"a"), (None, bytes(size))], START_MS, attributes=attributes, **producer)


def request(data: bytes | bytearray, transactional_id: str | None = None, partition: int = 0) -> ProduceRequest:
    parts = [PartitionProduceData(partition, bytes(data))]
    return ProduceRequest(transactional_id, -1, 1_000, [TopicProduceData(TOPIC, partition_data=parts)])


async def finish(client: Client, request: ProduceRequest, version: int = 12) -> tuple[Any, int]:
    """Send the request; return the partition's part of the response, and the number of turns of the event loop."""
    client.feed(frame(request, version))
    turns = 0
    while client.connection.is_busy:
        await turn(1)
        turns += 1
        assert turns < 1_000
    (answer,) = client.answers()
    return decode(answer, KEYS["Produce"], version).responses[0].partition_responses[0], turns


def values(rig: Rig) -> list[bytes | None]:
    """Return the values of all records in the log."""
    return [
        record.value
        for header, batch in rig.log(TOPIC, 0).batches()
        if not header.control
        for record in read_records(header, batch, HEADER_SIZE)
    ]


def left_over(rig: Rig) -> list[str]:
    log = rig.log(TOPIC, 0)
    return [name for name in log.disk.names_in(log.folder) if name.endswith(LARGE_BATCH_SUFFIX)]


def refusing(call: str) -> OnCall:
    """Return a disk hook that fails the given call for every file of a large batch."""
    return lambda name, path: errno.EMFILE if name == call and path.endswith(LARGE_BATCH_SUFFIX) else None


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("version", [9, 12])
async def test_a_large_batch_is_appended_between_others_which_continue_meanwhile(
    version: int, durability: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, PROPERTIES, durability=durability, executor=EXECUTORS[durability]) as rig:
        rig.topic(TOPIC)
        client, other = rig.client(), rig.client()
        await finish(other, request(build_batch([(None, b"first")], START_MS)))
        client.feed(frame(request(large()), version))
        assert client.connection.is_busy
        written = (await finish(other, request(build_batch([(None, b"meanwhile")], START_MS))))[0]
        assert (written.error_code, written.base_offset) == (0, 1)
        while client.connection.is_busy:
            await turn(1)
        answer = decode(client.answers()[0], KEYS["Produce"], version).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 2)
        after = (await finish(other, request(build_batch([(None, b"after")], START_MS))))[0]
        assert (after.error_code, after.base_offset) == (0, 4)
        expected = [b"first", b"meanwhile", b"a", bytes(SIZE), b"after"]
        assert values(rig) == expected
        assert left_over(rig) == []
    async with running_rig(data_dir, PROPERTIES) as rig:
        assert values(rig) == expected


async def test_a_large_batch_of_a_transaction_is_fenced_committed_and_not_repeated(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        producer_id, epoch = pair(init(client, "txn"))
        data = large(TRANSACTIONAL, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        first, turns = await finish(client, request(data, "txn"))
        assert (first.error_code, first.base_offset) == (0, 0)
        assert turns > SIZE // PIECE_SIZE
        repeated, _ = await finish(client, request(data, "txn"))
        assert (repeated.error_code, repeated.base_offset) == (0, 0)
        assert rig.log(TOPIC, 0).last_stable_offset == 0
        assert not client.ask(EndTxnRequest("txn", producer_id, epoch, True), 5).error_code
        assert rig.log(TOPIC, 0).last_stable_offset == rig.log(TOPIC, 0).next_offset == 3
        stale, _ = await finish(client, request(data, "txn"))
        assert stale.error_code == E.INVALID_PRODUCER_EPOCH
        assert left_over(rig) == []


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda data: data.__setitem__(-1, 1), E.CORRUPT_MESSAGE),
        (lambda data: (data.__setitem__(HEADER_SIZE, 3), seal(data)), E.INVALID_RECORD),
        (lambda data: data.extend(bytes(64 << 20)), E.CORRUPT_MESSAGE),
        (lambda data: data.__setitem__(16, 1), E.INVALID_RECORD),
    ],
    ids=["crc", "record length", "another batch", "magic"],
)
async def test_an_invalid_large_batch_is_refused_and_leaves_no_file(spoil: Any, error: E, data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC)
        data = large()
        spoil(data)
        answer, _ = await finish(rig.client(), request(data))
        assert answer.error_code == error
        assert rig.log(TOPIC, 0).next_offset == 0
        assert left_over(rig) == []


@pytest.mark.parametrize("tail", [0, 12])
@pytest.mark.parametrize("compressed", [False, True])
async def test_a_large_batch_may_be_compressed_or_followed_by_a_torn_piece(
    compressed: bool, tail: int, data_dir: Path
) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC)
        value = os.urandom(SIZE)
        data = build_batch([(None, value)], START_MS, attributes=compressed)
        if compressed:
            data[HEADER_SIZE:] = gzip.compress(data[HEADER_SIZE:], 1)
            data[8:12] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
            seal(data)
        answer, turns = await finish(rig.client(), request(data + bytes(tail)))
        assert answer.error_code == 0 and turns > 1
        ((_, stored),) = rig.log(TOPIC, 0).batches()
        assert stored == data


@pytest.mark.parametrize("config", [{"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}])
async def test_a_large_batch_follows_the_configuration_of_its_topic(config: dict[str, str], data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC, 1, **config)
        rig.clock.ms += 5
        data = build_batch([(b"k", bytes(SIZE))], START_MS)
        answer, turns = await finish(rig.client(), request(data))
        assert answer.error_code == 0 and turns > 1
        assert answer.log_append_time_ms == (START_MS + 5 if "message.timestamp.type" in config else -1)
        ((header, batch),) = rig.log(TOPIC, 0).batches()
        sealed = bytearray(batch)
        seal(sealed)
        assert read_header(sealed).crc == header.crc


async def test_a_topic_that_is_deleted_while_its_large_batch_is_written_gets_nothing(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(request(large()), 9))
        folder = rig.log(TOPIC, 0).folder
        rig.broker.topics.delete(rig.broker.topics.get(TOPIC))
        while client.connection.is_busy:
            await turn(1)
        answer = decode(client.answers()[0], KEYS["Produce"], 9).responses[0].partition_responses[0]
        assert answer.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert not os.path.exists(folder)
        Bystander(rig).work()


async def test_a_large_batch_is_written_directly_when_its_file_cannot_be_created() -> None:
    disk = MemoryDisk()
    async with running_rig(None, PROPERTIES, disk=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        await finish(client, request(build_batch([(None, b"first")], START_MS)))
        disk.on_call = refusing("open_file")
        answer, _ = await finish(client, request(large()))
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert values(rig) == [b"first", b"a", bytes(SIZE)]


@pytest.mark.parametrize("call", ["open_file", "rename"])
async def test_a_large_batch_is_written_directly_when_its_file_cannot_become_the_segment(call: str) -> None:
    disk = MemoryDisk()
    async with running_rig(None, PROPERTIES, disk=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        data = large()
        client.feed(frame(request(data), 9))
        while not (rig.log(TOPIC, 0).large_batches and rig.log(TOPIC, 0).large_batches[0].is_written):
            await turn(1)
        disk.on_call = refusing(call)
        while client.connection.is_busy:
            await turn(1)
        disk.on_call = None
        answer = decode(client.answers()[0], KEYS["Produce"], 9).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert values(rig) == [b"a", bytes(SIZE)]
        assert left_over(rig) == []


async def test_files_that_a_crash_leaves_of_a_large_batch_are_removed_at_the_next_start(
    data_dir: Path, tmp_path: Path
) -> None:
    crashed = tmp_path / "crashed"
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        await finish(client, request(build_batch([(None, b"first")], START_MS)))
        client.feed(frame(request(large()), 9))
        while not left_over(rig):
            await turn(1)
        shutil.copytree(data_dir, crashed / "before")
        while client.connection.is_busy:
            await turn(1)
        client.answers()
        shutil.copytree(data_dir, crashed / "after")
    for moment, expected in (("before", [b"first"]), ("after", [b"first", b"a", bytes(SIZE)])):
        async with running_rig(crashed / moment, PROPERTIES) as rig:
            assert left_over(rig) == []
            assert values(rig) == expected


def test_checking_the_records_of_a_batch_in_steps_gives_the_same_result_as_in_one_step() -> None:
    sizes = (1, 2, 70, 3)
    records = [(None, bytes(sizes[n % 4])) for n in range(2 * RECORDS_AT_ONCE + 11)]
    data = build_batch(records, START_MS)
    for at in (None, HEADER_SIZE, len(data) // 2, len(data) - 2):
        for spoilt in range(0, 256, 51):
            changed = bytearray(data)
            if at is not None:
                changed[at] = spoilt
            header = read_header(changed)
            steps = list(records_fill_in_steps(changed, header))
            assert steps[-1] == records_fill(changed, header)
            assert set(steps[:-1]) <= {None}
    assert len(list(records_fill_in_steps(data, read_header(data)))) == 4
