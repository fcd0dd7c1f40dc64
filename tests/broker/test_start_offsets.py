"""Where logs begin after DeleteRecords is noted once a request; a note or a journal that cannot be written is answered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage import data_dir as data_dir_module
from stuntbroker.storage.ownership import START_OFFSETS
from tests.kit.rig import START_MS, Client, Rig, rig
from tests.kit.valid_requests import batch

TOPICS = [f"t{number}" for number in range(5)]
PARTITIONS = 3
NO_ROOM = ErrorCode.KAFKA_STORAGE_ERROR


def fill(made: Rig) -> Client:
    client = made.client()
    for name in TOPICS:
        made.topic(name, PARTITIONS)
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
        one.error_code
        for one in client.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=1_000), 5).responses
    ]


class Checkpoint:
    """The writes of the checkpoint; `full`: the disk has no room for another one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.full = False
        real = data_dir_module.replace_file

        def replace_file(path: str, data: bytes, **how: Any) -> None:
            if path.endswith(START_OFFSETS):
                self.writes += 1
                if self.full:
                    raise OSError(28, os.strerror(28))
            real(path, data, **how)

        monkeypatch.setattr(data_dir_module, "replace_file", replace_file)


async def test_one_request_writes_the_checkpoint_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(data_dir) as made:
        client = fill(made)
        checkpoint = Checkpoint(monkeypatch)
        assert set(delete_records(client)) == {0}
        assert checkpoint.writes == 1

        assert delete_topics(client, *TOPICS[1:]) == [0] * len(TOPICS[1:])
        assert checkpoint.writes == 2
        lines = (data_dir / START_OFFSETS).read_text().splitlines()
        assert lines == ["0", "3", "t0 0 2", "t0 1 2", "t0 2 2"]

        assert delete_topics(client, "nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert checkpoint.writes == 2


async def test_deleted_records_are_no_promise_while_the_checkpoint_cannot_be_written(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(data_dir) as made:
        client = fill(made)
        checkpoint = Checkpoint(monkeypatch)
        checkpoint.full = True
        assert set(delete_records(client)) == {NO_ROOM}
        assert set(delete_records(client)) == {NO_ROOM}
        checkpoint.full = False
        assert set(delete_records(client)) == {0}
        assert (data_dir / START_OFFSETS).read_text().count(" 2\n") == len(TOPICS) * PARTITIONS
        assert made.events.names().count("start_offsets_not_written") == 2


async def test_a_topic_deleted_without_its_checkpoint_says_so_and_its_successor_begins_at_0(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(data_dir) as made:
        client = fill(made)
        assert set(delete_records(client)) == {0}
        checkpoint = Checkpoint(monkeypatch)
        checkpoint.full = True
        assert delete_topics(client, *TOPICS) == [NO_ROOM] * len(TOPICS)
        assert [topic.name for topic in made.broker.topics] == []
        assert "t0 0 2\n" in (data_dir / START_OFFSETS).read_text()
        monkeypatch.undo()
        made.broker.broken = True  # Ends as by kill -9.
    async with rig(data_dir) as made:
        assert (data_dir / START_OFFSETS).read_text() == "0\n0\n"
        fill(made)
        assert [log.log_start_offset for name in TOPICS for log in made.logs(name)] == [0] * len(TOPICS) * PARTITIONS


@pytest.mark.parametrize("transactional_id", [None, "payments"])
async def test_a_journal_that_cannot_be_written_is_answered(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, transactional_id: str | None
) -> None:
    async with rig(data_dir) as made:
        client = fill(made)
        real = os.write

        def write(fd: int, data: Any) -> int:
            if fd == made.broker.data_dir._journal:
                raise OSError(28, os.strerror(28))
            return real(fd, data)

        monkeypatch.setattr(os, "write", write)
        assert delete_topics(client, "t0") == [NO_ROOM]
        assert client.ask(InitProducerIdRequest(transactional_id, 60_000), 5).error_code == NO_ROOM
        assert made.broker.topics.get("t0") is not None
        monkeypatch.undo()
        assert delete_topics(client, "t0") == [0]
        assert client.ask(InitProducerIdRequest(transactional_id, 60_000), 5).error_code == 0
