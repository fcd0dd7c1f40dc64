"""`--durability power`: what is acknowledged outlives a power cut whose disk has forgotten every folder that was not synced.

After a cut a file holds what it held when it was last synced, and a folder the entries that it had when *it* was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
from tests.kit.disk_rig import Disk, numbers, produce
from tests.kit.group_requests import TIMEOUT_MS, pair
from tests.kit.rig import Client, Rig, decode, frame, rig
from tests.kit.valid_requests import TOPIC, batch

PROPERTIES = {"transaction.state.log.num.partitions": "1"}
TXN = "txn"
SEGMENT_BYTES = 400


class Forgetful:
    """Stands for the syncs of `os`: keeps what the disk has, by inode."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.files: dict[int, bytes] = {}
        self.folders: dict[int, dict[str, tuple[int, bool]]] = {}
        """Name -> inode, and whether it is a folder."""
        self.syncs: list[str] = []
        self._held: dict[int, int] = {}
        """A descriptor of each, so that no other file gets its number."""
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self.sync)

    def sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.syncs.append(path.name)
        inode = os.fstat(fd).st_ino
        if inode not in self._held:
            self._held[inode] = os.dup(fd)
        if path.is_dir():
            self.folders[inode] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
        else:
            self.files[inode] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)

    def cut(self, folder: Path, copy: Path) -> None:
        """The folder as the machine finds it when the power is back."""
        copy.mkdir()
        entries = self.folders.get(folder.parent.stat().st_ino, {})
        if folder.name in entries:
            self._restore(entries[folder.name][0], copy)

    def _restore(self, inode: int, copy: Path) -> None:
        for name, (entry, is_folder) in self.folders.get(inode, {}).items():
            if is_folder:
                (copy / name).mkdir()
                self._restore(entry, copy / name)
            else:
                (copy / name).write_bytes(self.files.get(entry, b""))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forgetful]:
    made = Forgetful(monkeypatch)
    yield made
    made.close()


class Story:
    """One client, answered after every sync that it needs; then the power goes."""

    def __init__(self, made: Rig, disk: Disk, forgetful: Forgetful, folder: Path) -> None:
        self.made, self.disk, self.forgetful, self.folder = made, disk, forgetful, folder
        self.client: Client = made.client()
        self.cuts = 0

    def ask(self, request: Any, key: int, version: int) -> Any:
        self.client.feed(frame(request, version))
        self.client.broker.turn.end()
        self.disk.rest()
        (answer,) = self.client.answers()
        return decode(answer, key, version)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.client.feed(frame(produce(batch()), 9))
            self.disk.rest()
            assert numbers(self.client) == [7]

    def cut(self) -> Path:
        self.cuts += 1
        copy = self.folder / f"cut-{self.cuts}"
        self.forgetful.cut(Path(self.made.broker.data_dir.path), copy)
        return copy


async def read_back(folder: Path) -> tuple[int, int, int, int]:
    """(start, end, last stable offset, records) of the one partition, as the next start finds them."""
    async with rig(folder, PROPERTIES) as made:
        found = made.broker.topics.log(TOPIC, 0)
        if found is None:
            return (-1, -1, -1, -1)
        count = sum(header.count for header, _ in found.batches())
        return found.log_start_offset, found.next_offset, found.last_stable_offset, count


async def test_what_is_acknowledged_is_there_after_a_power_cut(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetful: Forgetful
) -> None:
    disk = Disk()
    async with rig(data_dir, PROPERTIES, durability="power", executor=disk) as made:
        story = Story(made, disk, forgetful, tmp_path)
        assert story.ask(ApiVersionsRequest(), 18, 0).error_code == 0
        assert await read_back(story.cut()) == (-1, -1, -1, -1), "a new folder"
        assert story.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]), 19, 7).topics[0].error_code == 0
        assert await read_back(story.cut()) == (0, 0, 0, 0), "a new topic"
        story.write(1)
        assert await read_back(story.cut()) == (0, 2, 2, 2), "the first records of a partition"
        made.log(TOPIC, 0).config.segment_bytes = SEGMENT_BYTES
        story.write(9)
        assert len(made.log(TOPIC, 0).segments) >= 3
        assert await read_back(story.cut()) == (0, 20, 20, 20), "new segments"
        deleted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 12)])
        assert story.ask(DeleteRecordsRequest([deleted], 1_000), 21, 2).topics[0].partitions[0].error_code == 0
        assert (await read_back(story.cut()))[:3] == (12, 20, 20), "where the log begins"
        owner = pair(story.ask(InitProducerIdRequest(TXN, TIMEOUT_MS), 22, 5))
        assert not story.ask(produce(batch(1, *owner, 0), TXN), 0, 12).responses[0].partition_responses[0].error_code
        assert (await read_back(story.cut()))[1:3] == (21, 20), "an open transaction, in a log that is new"
        assert not story.ask(EndTxnRequest(TXN, *owner, True), 26, 5).error_code
        _, end, stable, _ = await read_back(story.cut())
        assert end == stable >= 22, "its commit, whose marker is written again when Complete is not on the disk"
        restarts = [Path(made.broker.data_dir.path), story.cut()]
    monkeypatch.undo()
    assert len({(folder / "meta.properties").read_text() for folder in restarts}) == 1


async def test_a_cleaning_takes_nothing_away_before_what_replaces_it_is_on_the_disk(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetful: Forgetful
) -> None:
    """The power may go at any moment of it."""
    disk = Disk()
    async with rig(data_dir, PROPERTIES, durability="power", executor=disk) as made:
        story = Story(made, disk, forgetful, tmp_path)
        made.topic(TOPIC, cleanup_policy="compact")
        log = made.log(TOPIC, 0)
        log.config.segment_bytes = SEGMENT_BYTES
        story.write(30)
        log.config.segment_bytes = 1 << 20
        cuts: list[Path] = []
        unlink = os.unlink

        def cut_before(path: Any) -> None:
            if str(path).endswith(".log"):
                cuts.append(story.cut())
                for (
                    entry
                ) in forgetful.folders.values():  # An unlink may reach the disk long before anybody asks for it.
                    entry.pop(Path(path).name, None)
            unlink(path)

        monkeypatch.setattr(os, "unlink", cut_before)
        for _ in Cleaning(log, made.clock.ms).slices():
            pass
        monkeypatch.setattr(os, "unlink", unlink)
        assert len(cuts) > 3
        cuts.append(story.cut())
    monkeypatch.undo()
    for copy in cuts:
        async with rig(copy, PROPERTIES) as made:
            batches = list(made.log(TOPIC, 0).batches())
            keys = {record.key for header, data in batches for record in read_records(header, bytes(data), HEADER_SIZE)}
            assert keys == {b"k0", b"k1"}


async def test_nothing_is_synced_when_only_the_process_may_end(data_dir: Path, forgetful: Forgetful) -> None:
    async with rig(data_dir, PROPERTIES) as made:
        client = made.client()
        client.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]), 7)
        made.log(TOPIC, 0).config.segment_bytes = SEGMENT_BYTES
        for _ in range(10):
            client.ask(produce(batch()), 9)
        client.ask(DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 12)])], 1_000), 2)
    assert forgetful.syncs == []


async def test_a_folder_is_synced_once_for_all_that_is_new_in_it(data_dir: Path, forgetful: Forgetful) -> None:
    disk = Disk()
    async with rig(data_dir, PROPERTIES, durability="power", executor=disk) as made:
        story = Story(made, disk, forgetful, data_dir)
        made.topic(TOPIC)
        story.write(1)
        assert forgetful.syncs.count(data_dir.name) == forgetful.syncs.count(f"{TOPIC}-0") == 1
        story.write(5)
        assert forgetful.syncs.count(f"{TOPIC}-0") == 1
