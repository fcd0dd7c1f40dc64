"""With a low limit of open files, the broker serves fewer clients, but still every partition."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from stuntbroker.broker.file_limits import RESERVE, share
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.processes.process import Peer, serving
from tests.kit.valid_requests import batch

OPEN_FILES_MAX = 256
PARTITIONS = 300


@pytest.mark.parametrize(
    ("open_files_max", "wanted", "connections", "segments"),
    [
        (1 << 20, 10_000, 10_000, (1 << 20) - RESERVE - 10_000),
        (1_024, 10_000, 720, 240),
        (1_024, 100, 100, 860),
        (64, 10, 6, 2),
    ],
)
def test_connections_are_limited_to_three_quarters_of_the_available_files(
    open_files_max: int, wanted: int, connections: int, segments: int
) -> None:
    assert share(open_files_max, wanted) == (connections, segments)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_with_every_connection_taken_every_partition_is_written_and_read(tmp_path: Path, durability: str) -> None:
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -n {OPEN_FILES_MAX}\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    arguments = ("--data-dir", str(tmp_path / "data"), "--durability", durability)
    with serving(*arguments, python=str(limited)) as broker, contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(broker.address))
        peer.ask(CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)], 60_000), 7)
        idle = 0
        with contextlib.suppress(ConnectionError):
            while idle < OPEN_FILES_MAX:
                other = stack.enter_context(Peer(broker.address))
                assert other.ask(ApiVersionsRequest(), 0).error_code == 0
                idle += 1
        assert idle + 1 == share(OPEN_FILES_MAX, 10_000).connections

        for start in range(0, PARTITIONS, 50):
            parts = [PartitionProduceData(index, batch()) for index in range(start, start + 50)]
            answer = peer.ask(ProduceRequest(None, -1, 30_000, [TopicProduceData("t", partition_data=parts)]), 9)
            assert {each.error_code for each in answer.responses[0].partition_responses} == {0}
        ends = [ListOffsetsPartition(index, -1, -1) for index in range(PARTITIONS)]
        answer = peer.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", ends)]), 5)
        assert {each.offset for each in answer.topics[0].partitions} == {2}
        status, _, err = broker.end()
        assert (status, err.count("max_connections_lowered")) == (0, 1), err
    with serving(*arguments, python=str(limited)) as broker, Peer(broker.address) as peer:
        answer = peer.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", ends)]), 5)
        assert {each.offset for each in answer.topics[0].partitions} == {2}
        broker.kill()
