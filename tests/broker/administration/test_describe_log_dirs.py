"""DescribeLogDirs: the data folder, the sizes of the partitions in it, and the space of its file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from stuntbroker.protocol.messages.describe_log_dirs_response import DescribeLogDirsResult
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.produce_and_fetch import produce
from tests.kit.rig import Rig, running_rig
from tests.kit.valid_requests import batch

SPACE_FROM = 4
CASES: dict[str, tuple[dict[str, list[int]] | None, dict[str, list[int]]]] = {
    "everything": (None, {"orders": [0, 1, 2], "payments": [0]}),
    "nothing": ({}, {}),
    "some partitions": ({"orders": [2, 0]}, {"orders": [0, 2]}),
    "a partition twice": ({"payments": [0, 0]}, {"payments": [0]}),
    "no partitions": ({"orders": []}, {}),
    "unknown ones": ({"orders": [9, -1], "nope": [0], "payments": [0]}, {"payments": [0]}),
}


def describe(rig: Rig, wanted: dict[str, list[int]] | None, version: int) -> DescribeLogDirsResult:
    topics = None if wanted is None else [DescribableLogDirTopic(*each) for each in wanted.items()]
    response = rig.client().ask(DescribeLogDirsRequest(topics), version)
    assert response.error_code == ErrorCode.NONE
    (result,) = response.results
    assert result.error_code == ErrorCode.NONE
    return result


@pytest.mark.parametrize("version", range(1, 6))
@pytest.mark.parametrize("case", CASES)
async def test_partitions_that_exist_and_were_requested_have_a_size(case: str, version: int, data_dir: Path) -> None:
    wanted, expected = CASES[case]
    async with running_rig(data_dir) as rig:
        rig.topic("orders", 3)
        rig.topic("payments")
        data = batch(size=1_000)
        rig.client().ask(produce(data, "payments"), 9)

        result = describe(rig, wanted, version)

        assert result.log_dir == os.path.abspath(data_dir)
        actual = {topic.name: {each.partition_index: each for each in topic.partitions} for topic in result.topics}
        assert {name: sorted(partitions) for name, partitions in actual.items()} == expected
        for name, partitions in actual.items():
            for index, described in partitions.items():
                assert described.partition_size == (len(data) if name == "payments" else 0), index
                assert (described.offset_lag, described.is_future_key) == (0, False)


@pytest.mark.parametrize("version", range(1, 6))
async def test_the_space_of_the_file_system_is_known_from_version_4_on(version: int) -> None:
    disk = MemoryDisk(capacity=1_000_000)
    async with running_rig(disk=disk) as rig:
        rig.topic("orders")
        rig.client().ask(produce(batch(), "orders"), 9)

        result = describe(rig, {}, version)

        expected = (1_000_000, 1_000_000 - disk.used) if version >= SPACE_FROM else (-1, -1)
        assert (result.total_bytes, result.usable_bytes) == expected


async def test_a_node_describes_only_its_own_replicas(data_dir: Path) -> None:
    async with running_rig(data_dir, properties={"stuntbroker.nodes": "2", "default.replication.factor": "1"}) as rig:
        rig.topic("orders", 2)
        placements = rig.broker.topics.by_name["orders"].placements
        node_id = rig.broker.listeners[0].node_id
        expected = [index for index, placement in enumerate(placements) if node_id in placement.replicas]

        (topic,) = describe(rig, None, 4).topics

        assert [each.partition_index for each in topic.partitions] == expected
        assert len(expected) == 1
