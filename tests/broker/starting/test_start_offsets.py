"""A request writes the start offset checkpoint at most once. The response reports a failed write of it or of the journal."""

from __future__ import annotations

import errno

import pytest

from stuntbroker.protocol.data_folder import JOURNAL, START_OFFSETS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.rig import MEMORY_FOLDER, START_MS, Client, Rig, running_rig
from tests.kit.valid_requests import batch

TOPICS = [f"t{number}" for number in range(5)]
PARTITIONS = 3
NO_ROOM = ErrorCode.KAFKA_STORAGE_ERROR


def fill(rig: Rig) -> Client:
    client = rig.client()
    for name in TOPICS:
        rig.topic(name, PARTITIONS)
        produce(client, name)
    return client


def produce(client: Client, name: str) -> None:
    data = [PartitionProduceData(index, batch(4, timestamp=START_MS)) for index in range(PARTITIONS)]
    answer = client.ask(ProduceRequest(None, -1, 1_000, [TopicProduceData(name, partition_data=data)]), 9)
    assert {part.error_code for part in answer.responses[0].partition_responses} == {0}


def delete_records(client: Client, before: int = 2) -> list[int]:
    partitions = [DeleteRecordsPartition(index, before) for index in range(PARTITIONS)]
    answer = client.ask(DeleteRecordsRequest([DeleteRecordsTopic(name, partitions) for name in TOPICS], 1_000), 2)
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def delete_topics(client: Client, *names: str) -> list[int]:
    return [
        each.error_code
        for each in client.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=1_000), 5).responses
    ]


def text_of(disk: MemoryDisk) -> str:
    return disk.files()[f"{MEMORY_FOLDER}/{START_OFFSETS}"].decode()


class Checkpoint:
    """Count the writes of the checkpoint; with `full`, fail them because the disk is full."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.writes = 0
        self.full = False
        disk.on_call = self

    def __call__(self, call: str, path: str) -> int | None:
        if call != "open_file" or not path.endswith(f"{START_OFFSETS}.new"):
            return None
        self.writes += 1
        return errno.ENOSPC if self.full else None


async def test_one_request_writes_the_checkpoint_once() -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk) as rig:
        client = fill(rig)
        checkpoint = Checkpoint(disk)
        assert set(delete_records(client)) == {0}
        assert checkpoint.writes == 1

        assert delete_topics(client, *TOPICS[1:]) == [0] * len(TOPICS[1:])
        assert checkpoint.writes == 2
        lines = text_of(disk).splitlines()
        assert lines == ["0", "3", "t0 0 2", "t0 1 2", "t0 2 2"]

        assert delete_topics(client, "nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert checkpoint.writes == 2


async def test_delete_records_fails_while_the_start_offset_checkpoint_cannot_be_written() -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk) as rig:
        client = fill(rig)
        checkpoint = Checkpoint(disk)
        checkpoint.full = True
        assert set(delete_records(client)) == {NO_ROOM}
        assert set(delete_records(client)) == {NO_ROOM}
        checkpoint.full = False
        assert set(delete_records(client)) == {0}
        assert text_of(disk).count(" 2\n") == len(TOPICS) * PARTITIONS
        assert rig.events.names().count("start_offsets_not_written") == 2


async def test_a_topic_deletion_reports_a_failed_checkpoint_and_the_recreated_topic_starts_at_offset_0() -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk) as rig:
        client = fill(rig)
        assert set(delete_records(client)) == {0}
        checkpoint = Checkpoint(disk)
        checkpoint.full = True
        assert delete_topics(client, *TOPICS) == [NO_ROOM] * len(TOPICS)
        assert [topic.name for topic in rig.broker.topics] == []
        assert "t0 0 2\n" in text_of(disk)
        disk.on_call = None
        rig.broker.broken = True  # As after kill -9.
    async with running_rig(disk=disk) as rig:
        assert text_of(disk) == "0\n0\n"
        fill(rig)
        assert [log.log_start_offset for name in TOPICS for log in rig.logs(name)] == [0] * len(TOPICS) * PARTITIONS


@pytest.mark.parametrize("transactional_id", [None, "payments"])
async def test_a_failed_journal_write_is_reported_in_the_response(transactional_id: str | None) -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk) as rig:
        client = fill(rig)
        disk.on_call = lambda call, path: errno.ENOSPC if call == "write" and path.endswith(JOURNAL) else None
        assert delete_topics(client, "t0") == [NO_ROOM]
        refused = client.ask(InitProducerIdRequest(transactional_id, 60_000), 5)
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert rig.broker.topics.get("t0") is not None
        disk.on_call = None
        assert delete_topics(client, "t0") == [0]
        assert client.ask(InitProducerIdRequest(transactional_id, 60_000), 5).error_code == 0
