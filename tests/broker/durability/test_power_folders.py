"""`--durability power`: acknowledged data survives a power cut in which the disk loses all changes to folders not yet synced.

After the cut, a file has its contents at the last sync and any part of later writes. The same holds for a folder and its
names (memory_disk.py).
"""

from __future__ import annotations

from random import Random
from typing import Any

from stuntbroker.protocol.batches.records import HEADER_SIZE, read_records
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.disk_rig import Disk, numbers, produce
from tests.kit.groups.group_requests import TIMEOUT_MS, pair
from tests.kit.rig import Client, Rig, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC, batch

PROPERTIES = {"transaction.state.log.num.partitions": "1"}
TXN = "txn"
SEGMENT_BYTES = 400
SEEDS = 8
"""Number of simulated power cuts at one moment."""


class Story:
    """A client whose requests are synced and answered one by one, and the simulated power cuts after them."""

    def __init__(self, rig: Rig, executor: Disk, disk: MemoryDisk) -> None:
        self.created, self.executor, self.disk = rig, executor, disk
        self.client: Client = rig.client()

    def ask(self, request: Any, key: int, version: int) -> Any:
        self.client.feed(frame(request, version))
        self.client.broker.turn.end()
        self.executor.drain()
        (answer,) = self.client.answers()
        return decode(answer, key, version)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.client.feed(frame(produce(batch()), 9))
            self.executor.drain()
            assert numbers(self.client) == [7]

    async def read_back(self) -> list[tuple[int, int, int, int]]:
        """Return the state after a restart, for each of several power cuts at this moment."""
        return [await read_back(self.disk.after_power_cut(Random(seed))) for seed in range(SEEDS)]


async def read_back(disk: MemoryDisk) -> tuple[int, int, int, int]:
    """Start a broker from the disk; return (start, end, last stable offset, records) of the partition."""
    async with running_rig(None, PROPERTIES, disk=disk) as rig:
        log = rig.broker.topics.log(TOPIC, 0)
        if log is None:
            return (-1, -1, -1, -1)
        count = sum(header.count for header, _ in log.batches())
        return log.log_start_offset, log.next_offset, log.last_stable_offset, count


async def test_acknowledged_data_survives_a_power_cut() -> None:
    executor, disk = Disk(), MemoryDisk()
    async with running_rig(None, PROPERTIES, durability="power", executor=executor, disk=disk) as rig:
        story = Story(rig, executor, disk)
        assert story.ask(ApiVersionsRequest(), 18, 0).error_code == 0
        assert set(await story.read_back()) == {(-1, -1, -1, -1)}, "a new folder"
        assert story.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]), 19, 7).topics[0].error_code == 0
        assert set(await story.read_back()) == {(0, 0, 0, 0)}, "a new topic"
        story.write(1)
        assert set(await story.read_back()) == {(0, 2, 2, 2)}, "the first records of a partition"
        rig.log(TOPIC, 0).config.segment_bytes = SEGMENT_BYTES
        story.write(9)
        assert len(rig.log(TOPIC, 0).segments) >= 3
        assert set(await story.read_back()) == {(0, 20, 20, 20)}, "new segments"
        deleted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 12)])
        assert story.ask(DeleteRecordsRequest([deleted], 1_000), 21, 2).topics[0].partitions[0].error_code == 0
        assert {left[:3] for left in await story.read_back()} == {(12, 20, 20)}, "where the log begins"
        owner = pair(story.ask(InitProducerIdRequest(TXN, TIMEOUT_MS), 22, 5))
        assert not story.ask(produce(batch(1, *owner, 0), TXN), 0, 12).responses[0].partition_responses[0].error_code
        assert {left[1:3] for left in await story.read_back()} == {(21, 20)}, (
            "an open transaction, in a log that is new"
        )
        assert not story.ask(EndTxnRequest(TXN, *owner, True), 26, 5).error_code
        for _, end, stable, _ in await story.read_back():
            assert end == stable >= 22, "its commit, whose marker is written again when Complete is not on the disk"
        names = {
            left.files()["/data/meta.properties"]
            for left in (disk, *(disk.after_power_cut(Random(seed)) for seed in range(SEEDS)))
        }
    assert len(names) == 1


async def test_a_power_cut_during_a_sync_leaves_a_readable_log_with_all_acknowledged_records() -> None:
    """The records being synced are not acknowledged, so they may be lost; all earlier records must be there."""
    for seed in range(30):
        executor, disk = Disk(), MemoryDisk()
        async with running_rig(None, PROPERTIES, durability="power", executor=executor, disk=disk) as rig:
            story = Story(rig, executor, disk)
            rig.topic(TOPIC)
            story.write(2)
            for _ in range(3):
                story.client.feed(frame(produce(batch(size=700)), 9))
                rig.broker.turn.end()
            left = disk.after_power_cut(Random(seed))
            executor.drain()
            story.client.answers()
        start, end, stable, count = await read_back(left)
        assert (start, stable, count) == (0, end, end)
        assert end in (4, 6, 8, 10)


async def test_compaction_removes_no_segment_before_its_replacement_is_synced() -> None:
    """Simulate power cuts before each removal, rename and folder sync of the compaction."""
    executor, disk = Disk(), MemoryDisk()
    async with running_rig(None, PROPERTIES, durability="power", executor=executor, disk=disk) as rig:
        story = Story(rig, executor, disk)
        rig.topic(TOPIC, cleanup_policy="compact")
        log = rig.log(TOPIC, 0)
        log.config.segment_bytes = SEGMENT_BYTES
        story.write(30)
        log.config.segment_bytes = 1 << 20
        left: list[MemoryDisk] = []

        def cut(call: str, path: str) -> None:
            if call in ("remove", "rename", "sync_path"):
                left.extend(disk.after_power_cut(Random(seed)) for seed in range(3))

        disk.on_call = cut
        for _ in Cleaning(log, rig.clock.ms).slices():
            pass
        disk.on_call = None
        assert len(left) > 9
        left.append(disk.after_power_cut(Random(0)))
    for each in left:
        async with running_rig(None, PROPERTIES, disk=each) as rig:
            batches = list(rig.log(TOPIC, 0).batches())
            keys = {record.key for header, data in batches for record in read_records(header, bytes(data), HEADER_SIZE)}
            assert keys == {b"k0", b"k1"}


def syncs_of(disk: MemoryDisk) -> list[str]:
    """Return a list to which every path is added that is synced from now on."""
    paths: list[str] = []

    def note(call: str, path: str) -> None:
        if call in ("sync", "sync_path"):
            paths.append(path)

    disk.on_call = note
    return paths


async def test_nothing_is_synced_without_power_durability() -> None:
    disk = MemoryDisk()
    syncs = syncs_of(disk)
    async with running_rig(None, PROPERTIES, disk=disk) as rig:
        client = rig.client()
        client.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]), 7)
        rig.log(TOPIC, 0).config.segment_bytes = SEGMENT_BYTES
        for _ in range(10):
            client.ask(produce(batch()), 9)
        client.ask(DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 12)])], 1_000), 2)
    assert syncs == []


async def test_a_folder_is_synced_once_for_all_its_new_files() -> None:
    executor, disk = Disk(), MemoryDisk()
    syncs = syncs_of(disk)
    async with running_rig(None, PROPERTIES, durability="power", executor=executor, disk=disk) as rig:
        story = Story(rig, executor, disk)
        rig.topic(TOPIC)
        story.write(1)
        assert syncs.count("/data") == syncs.count(f"/data/{TOPIC}-0") == 1
        story.write(5)
        assert syncs.count(f"/data/{TOPIC}-0") == 1
