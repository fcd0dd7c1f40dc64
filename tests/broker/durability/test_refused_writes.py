"""After a failed write: what the broker still writes and what not, and what it reports."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from tests.kit.logs import batch
from tests.kit.rig import START_MS, SyncedAtOnce, running_rig, turn

DURABILITIES = pytest.mark.parametrize("durability", ["process", "power"])


def executor(durability: str) -> SyncedAtOnce | None:
    return SyncedAtOnce() if durability == "power" else None


def append(log: PartitionLog, size: int = 10) -> None:
    data = batch([(b"key", bytes(size))])
    log.append_client(data, read_header(data), START_MS)
    log.flush_buffered()


def refusing(wanted: str, path_part: str) -> Callable[[str, str], int | None]:
    return lambda call, path: errno.EIO if call == wanted and path_part in path else None


@DURABILITIES
async def test_after_a_write_that_failed_nothing_is_written(durability: str) -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk, durability=durability, executor=executor(durability)) as rig:
        for topic in ("a", "b"):
            rig.topic(topic)
            append(rig.log(topic, 0))
        disk.on_call = refusing("write", "/a-0/")
        with pytest.raises(StorageError):
            append(rig.log("a", 0))
        disk.on_call = None
        before = disk.files()

        assert rig.broker.broken
        with pytest.raises(StorageError, match="an earlier write failed"):
            append(rig.log("b", 0), LARGE_BATCH_SIZE)
        with pytest.raises(StorageError, match="an earlier write failed"):
            append(rig.log("b", 0))
        with pytest.raises(StorageError, match="an earlier write failed"):
            rig.topic("c")
        assert disk.files() == before


@DURABILITIES
async def test_writes_pass_the_storage_points_before_and_after_each_step(durability: str) -> None:
    passed: set[str] = set()
    async with running_rig(disk=MemoryDisk(), durability=durability, executor=executor(durability)) as rig:
        rig.topic("orders", 1, segment_bytes="1048576")
        rig.broker.data_dir.points.on_pass = lambda point, topic, partition: passed.add(point)
        for _ in range(4):
            append(rig.log("orders", 0), 400_000)
        rig.topic("other")
        rig.broker.data_dir.points.on_pass = None

    steps = ("log.write", "segment.roll", "journal.write")
    assert {f"{step}.{when}" for step in steps for when in ("before", "after")} <= passed


async def test_a_failed_checkpoint_write_is_logged_and_stops_no_other_timer() -> None:
    disk = MemoryDisk()
    async with running_rig(disk=disk, properties={"log.retention.check.interval.ms": "1000"}) as rig:
        rig.topic("orders", 1, retention_ms="1000")
        append(rig.log("orders", 0))
        disk.on_call = refusing("open_file", "log-start-offset")
        called: list[int] = []
        rig.broker.timers.call_later(400_000_000, lambda: called.append(1))
        rig.pass_time(400_000_000)
        await turn()

        assert "start_offsets_not_written" in rig.events.names()
        assert (called, rig.faults, rig.broker.broken) == ([1], [], False)
        disk.on_call = None


async def test_the_folder_of_a_broker_in_memory_is_described() -> None:
    disk = MemoryDisk(capacity=1_000_000)
    async with running_rig(disk=disk) as rig:
        rig.topic("orders")
        append(rig.log("orders", 0))
        (result,) = rig.client().ask(DescribeLogDirsRequest(None), 4).results
        (topic,) = result.topics

        assert [(each.partition_index, each.partition_size) for each in topic.partitions] == [
            (0, rig.log("orders", 0).size)
        ]
        assert (result.total_bytes, result.usable_bytes) == (1_000_000, 1_000_000 - disk.used)
