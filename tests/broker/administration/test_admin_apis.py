"""Admin APIs for replicas, leaders, the quorum and configuration resources respond like a single broker of Kafka 4.3.1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stuntbroker.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from stuntbroker.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from stuntbroker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from stuntbroker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from stuntbroker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.rig import START_MS, Rig, running_rig

NONE, UNKNOWN, NO_DIR = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND
TIMED_OUT, INVALID = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST
PREFERRED, UNCLEAN = 0, 1


def make_topics(rig: Rig) -> None:
    rig.topic("t", 3)
    rig.topic("t2", 1)


# --- AlterReplicaLogDirs

HERE, ABSENT = "{log_dir}", "/absent"
LOG_DIRS: dict[str, tuple[list[tuple[str, dict[str, list[int]]]], dict[str, dict[int, ErrorCode]]]] = {
    "the directory where it is": ([(HERE, {"t": [0]})], {"t": {0: NONE}}),
    "a slash too many": ([(HERE + "/", {"t": [0]})], {"t": {0: NO_DIR}}),
    "an absent directory": ([(ABSENT, {"t": [0]})], {"t": {0: NO_DIR}}),
    "a relative path": ([("logs", {"t": [0]})], {"t": {0: NO_DIR}}),
    "no path": ([("", {"t": [0]})], {"t": {0: NO_DIR}}),
    "an unknown topic": ([(HERE, {"nope": [0]})], {"nope": {0: UNKNOWN}}),
    "an invalid topic name": ([(HERE, {"a/b": [0]})], {"a/b": {0: UNKNOWN}}),
    "unknown partitions": ([(HERE, {"t": [9, -1]})], {"t": {9: UNKNOWN, -1: UNKNOWN}}),
    "an unknown topic and an absent directory": ([(ABSENT, {"nope": [0]})], {"nope": {0: NO_DIR}}),
    "topics under two paths": (
        [(HERE, {"t": [2, 0], "t2": [0], "nope": [0]}), (ABSENT, {"t": [1], "t2": [5]})],
        {"t": {2: NONE, 0: NONE, 1: NO_DIR}, "t2": {0: NONE, 5: NO_DIR}, "nope": {0: UNKNOWN}},
    ),
    "a partition under two paths": ([(HERE, {"t": [0]}), (ABSENT, {"t": [0]})], {"t": {0: NO_DIR}}),
    "a partition twice": ([(HERE, {"t": [0, 0]})], {"t": {0: NONE}}),
    "no directories": ([], {}),
    "no topics": ([(HERE, {})], {}),
    "no partitions": ([(HERE, {"t": []})], {}),
}


@pytest.mark.parametrize("version", (1, 2))
@pytest.mark.parametrize("case", LOG_DIRS)
async def test_alter_replica_log_dirs(case: str, version: int, data_dir: Path) -> None:
    wanted, expected = LOG_DIRS[case]
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        log_dir = os.path.abspath(data_dir)
        dirs = [
            AlterReplicaLogDir(
                path.format(log_dir=log_dir), [AlterReplicaLogDirTopic(*each) for each in topics.items()]
            )
            for path, topics in wanted
        ]
        results = rig.client().ask(AlterReplicaLogDirsRequest(dirs), version).results
        actual = {each.topic_name: {p.partition_index: p.error_code for p in each.partitions} for each in results}
        assert actual == expected
        assert sum(len(each.partitions) for each in results) == sum(map(len, expected.values()))


# --- ElectLeaders

NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
ELECTIONS: dict[str, tuple[list[tuple[str, list[int]]], list[tuple[str, list[tuple[int, ErrorCode, str]]]]]] = {
    "one": ([("t", [0])], [("t", [(0, *NOT_NEEDED)])]),
    "several": (
        [("t", [2, 0, 9, -1]), ("nope", [0]), ("t2", [0])],
        [
            ("t", [
                (2, *NOT_NEEDED), (0, *NOT_NEEDED), (9, UNKNOWN, "No such partition as t-9"),
                (-1, UNKNOWN, "No such partition as t--1"),
            ]),
            ("nope", [(0, UNKNOWN, "No such topic as nope")]),
            ("t2", [(0, *NOT_NEEDED)]),
        ],
    ),
    "invalid names": (
        [("", [0]), ("a/b", [0])],
        [("", [(0, UNKNOWN, "No such topic as ")]), ("a/b", [(0, UNKNOWN, "No such topic as a/b")])],
    ),
    "a partition twice": ([("t", [0, 0])], [("t", [(0, *NOT_NEEDED)] * 2)]),
    "a topic twice": ([("t", [0]), ("t", [1])], [("t", [(0, *NOT_NEEDED)]), ("t", [(1, *NOT_NEEDED)])]),
    "no partitions": ([("t", []), ("nope", [])], [("t", []), ("nope", [])]),
    "no topics": ([], []),
}  # fmt: skip


def shown_elections(response: Any) -> list[Any]:
    return [
        (each.topic, [(p.partition_id, p.error_code, p.error_message) for p in each.partition_result])
        for each in response.replica_election_results
    ]


@pytest.mark.parametrize(
    ("version", "election_type"), [(0, PREFERRED), (1, PREFERRED), (1, UNCLEAN), (2, PREFERRED), (2, UNCLEAN)]
)
@pytest.mark.parametrize("case", ELECTIONS)
async def test_elect_leaders(case: str, version: int, election_type: int, data_dir: Path) -> None:
    wanted, expected = ELECTIONS[case]
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        request = ElectLeadersRequest(election_type, [TopicPartitions(*each) for each in wanted], 5_000)
        response = rig.client().ask(request, version)
        assert (response.error_code, shown_elections(response)) == (NONE, expected)


@pytest.mark.parametrize("version", (0, 1, 2))
async def test_elect_leaders_of_every_partition_names_the_topics_only(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(ElectLeadersRequest(PREFERRED, None, 5_000), version)
        assert (response.error_code, shown_elections(response)) == (NONE, [("t", []), ("t2", [])])


@pytest.mark.parametrize("version", (1, 2))
@pytest.mark.parametrize(
    ("election_type", "timeout_ms", "error", "message"),
    [
        (2, 5_000, INVALID, "Unknown election type 2"), (-1, 5_000, INVALID, "Unknown election type -1"),
        (PREFERRED, 0, TIMED_OUT, None), (UNCLEAN, -1, TIMED_OUT, None), (2, 0, TIMED_OUT, None),
    ],
)  # fmt: skip
async def test_elect_leaders_fails_for_every_partition_of_the_request(
    election_type: int, timeout_ms: int, error: ErrorCode, message: str | None, version: int, data_dir: Path
) -> None:
    def ask(topics: list[TopicPartitions] | None) -> tuple[int, list[Any]]:
        response = client.ask(ElectLeadersRequest(election_type, topics, timeout_ms), version)
        return response.error_code, shown_elections(response)

    async with running_rig(data_dir) as rig:
        make_topics(rig)
        client = rig.client()
        topics = [TopicPartitions("t", [0]), TopicPartitions("nope", [])]
        assert ask(topics) == (error, [("t", [(0, error, message)]), ("nope", [])])
        assert ask(None) == (error, [])
        assert ask([]) == (NONE, [])


async def test_elect_leaders_version_0_reports_a_time_out_for_each_partition(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(ElectLeadersRequest(PREFERRED, [TopicPartitions("t", [0])], 0), 0)
        assert shown_elections(response) == [("t", [(0, TIMED_OUT, None)])]


# --- AlterPartitionReassignments

ASSIGNMENT, NO_REASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
INCLUDES = "The manual partition assignment includes "
CANCEL = None
REPLICAS: dict[str, tuple[str, int, list[int] | None, ErrorCode, str | None]] = {
    "the only broker": ("t", 0, [1], NONE, None),
    "the only broker, an internal topic": ("__consumer_offsets", 0, [1], NONE, None),
    "cancel": ("t", 0, CANCEL, NO_REASSIGNMENT, None),
    "another broker too": ("t", 0, [1, 2], ASSIGNMENT, INCLUDES + "broker 2, but no such broker is registered."),
    "another broker": ("t", 0, [2], ASSIGNMENT, INCLUDES + "broker 2, but no such broker is registered."),
    "the smallest unknown broker": (
        "t",
        0,
        [1, 3, 2],
        ASSIGNMENT,
        INCLUDES + "broker 2, but no such broker is registered.",
    ),
    "a negative broker": ("t", 0, [1, -1], ASSIGNMENT, INCLUDES + "broker -1, but no such broker is registered."),
    "a broker twice and a negative": (
        "t",
        0,
        [1, 1, -1],
        ASSIGNMENT,
        INCLUDES + "broker -1, but no such broker is registered.",
    ),
    "a broker twice and another": ("t", 0, [2, 1, 1], ASSIGNMENT, INCLUDES + "the broker 1 more than once."),
    "a broker twice": ("t", 0, [1, 1], ASSIGNMENT, INCLUDES + "the broker 1 more than once."),
    "no replicas": ("t", 0, [], ASSIGNMENT, INCLUDES + "an empty replica list."),
    "an unknown topic": ("nope", 0, [1], UNKNOWN, "Unable to find a topic named nope."),
    "an unknown topic, cancel": ("nope", 0, CANCEL, UNKNOWN, "Unable to find a topic named nope."),
    "no topic name": ("", 0, [1], UNKNOWN, "Unable to find a topic named ."),
    "an invalid topic name": ("a/b", 0, [], UNKNOWN, "Unable to find a topic named a/b."),
    "the metadata log": ("__cluster_metadata", 0, [1], UNKNOWN, "Unable to find a topic named __cluster_metadata."),
    "an unknown partition": ("t", 9, [1], UNKNOWN, "Unable to find partition t:9."),
    "an unknown partition, cancel": ("t", -1, CANCEL, UNKNOWN, "Unable to find partition t:-1."),
}


def reassignment(
    *topics: tuple[str, list[tuple[int, list[int] | None]]], timeout_ms: int = 5_000, allow: bool = True
) -> Any:
    wanted = [
        ReassignableTopic(name, [ReassignablePartition(*each) for each in partitions]) for name, partitions in topics
    ]
    return AlterPartitionReassignmentsRequest(timeout_ms, allow, wanted)


def shown_reassignments(response: Any) -> list[Any]:
    return [
        (topic.name, [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions])
        for topic in response.responses
    ]


@pytest.mark.parametrize(("version", "allow"), [(0, True), (1, True), (1, False)])
@pytest.mark.parametrize("case", REPLICAS)
async def test_alter_partition_reassignments(case: str, version: int, allow: bool, data_dir: Path) -> None:
    name, index, replicas, error, message = REPLICAS[case]
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        rig.broker.topics.internal_topic("__consumer_offsets")
        response = rig.client().ask(reassignment((name, [(index, replicas)]), allow=allow), version)
        assert (response.error_code, response.error_message) == (NONE, None)
        assert response.allow_replication_factor_change is allow
        assert shown_reassignments(response) == [(name, [(index, error, message)])]


@pytest.mark.parametrize("version", (0, 1))
async def test_alter_partition_reassignments_keeps_order_and_duplicates(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        topics = [("t", [(2, [1]), (0, None), (2, [2])]), ("nope", []), ("t2", [(0, [1])]), ("t", [(1, [1])])]
        response = rig.client().ask(reassignment(*topics), version)
        assert shown_reassignments(response) == [
            ("t", [
                (2, NONE, None), (0, NO_REASSIGNMENT, None),
                (2, ASSIGNMENT, INCLUDES + "broker 2, but no such broker is registered."),
            ]),
            ("nope", []), ("t2", [(0, NONE, None)]), ("t", [(1, NONE, None)]),
        ]  # fmt: skip


@pytest.mark.parametrize("version", (0, 1))
async def test_alter_partition_reassignments_without_time_or_topics(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        client = rig.client()
        response = client.ask(reassignment(("t", [(0, [1])]), timeout_ms=0, allow=False), version)
        assert (response.error_code, response.error_message) == (TIMED_OUT, None)
        assert response.allow_replication_factor_change
        assert shown_reassignments(response) == [("t", [(0, TIMED_OUT, None)])]
        for timeout_ms in (5_000, 0):
            response = client.ask(reassignment(timeout_ms=timeout_ms, allow=False), version)
            assert (response.error_code, response.error_message, list(response.responses)) == (NONE, "", [])
            assert response.allow_replication_factor_change


# --- ListPartitionReassignments


@pytest.mark.parametrize("timeout_ms", (5_000, 0))
@pytest.mark.parametrize("topics", [None, [], [("t", [0])], [("t", [])], [("nope", [0]), ("nope", [0])]])
async def test_list_partition_reassignments_is_empty(
    topics: list[tuple[str, list[int]]] | None, timeout_ms: int, data_dir: Path
) -> None:
    wanted = None if topics is None else [ListPartitionReassignmentsTopics(*each) for each in topics]
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(ListPartitionReassignmentsRequest(timeout_ms, wanted), 0)
        assert (response.error_code, response.error_message, list(response.topics)) == (NONE, None, [])


# --- DescribeQuorum

METADATA = "__cluster_metadata"


def describe_quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest([TopicData(name, [PartitionData(at) for at in indexes]) for name, indexes in topics])


@pytest.mark.parametrize("version", (0, 1, 2))
async def test_describe_quorum_shows_this_broker_as_leader_and_only_voter(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir, {"node.id": "5"}) as rig:
        make_topics(rig)
        response = rig.client().ask(describe_quorum((METADATA, [0])), version)
        ((topic,), (partition,)) = response.topics, response.topics[0].partitions
        (voter,) = partition.current_voters
        assert (response.error_code, response.error_message, topic.topic_name) == (NONE, "", METADATA)
        assert (partition.partition_index, partition.error_code, partition.error_message) == (0, NONE, "")
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (5, 1, 2)  # Two topics.
        assert list(partition.observers) == []
        assert (voter.replica_id, voter.replica_directory_id, voter.log_end_offset) == (5, ZERO_UUID, 2)
        now = START_MS if version >= 1 else -1
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (now, now)
        assert [(each.node_id, list(each.listeners)) for each in response.nodes] == ([(5, [])] if version >= 2 else [])
        rig.topic("t3")
        later = rig.client().ask(describe_quorum((METADATA, [0])), version)
        assert later.topics[0].partitions[0].high_watermark == 3


@pytest.mark.parametrize("version", (0, 1, 2))
@pytest.mark.parametrize(
    "topics",
    [
        [(METADATA, [1])], [(METADATA, [-1])], [("t", [0])], [("nope", [0])], [(METADATA, [0]), ("t", [0])],
        [("t", [0]), (METADATA, [0])], [(METADATA, [0, 1])], [(METADATA, [0, 0])], [(METADATA, [0]), (METADATA, [0])],
        [(METADATA, [0]), ("t", [])], [(METADATA, [])], [],
    ],
)  # fmt: skip
async def test_describe_quorum_rejects_every_partition_of_any_other_request(
    topics: list[tuple[str, list[int]]], version: int, data_dir: Path
) -> None:
    message = "This server does not host this topic-partition." if version >= 2 else ""
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(describe_quorum(*topics), version)
        assert (response.error_code, response.error_message, list(response.nodes)) == (NONE, "", [])
        assert [(each.topic_name, [p.partition_index for p in each.partitions]) for each in response.topics] == topics
        for partition in (p for each in response.topics for p in each.partitions):
            assert (partition.error_code, partition.error_message) == (UNKNOWN, message)
            assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 0, 0)
            assert (list(partition.current_voters), list(partition.observers)) == ([], [])


# --- ListConfigResources

LOGGER_OF_BROKER, BROKER, TOPICS = ("1", 8), ("1", 4), [("t", 2), ("t2", 2)]
RESOURCES: dict[str, tuple[list[int], ErrorCode, list[tuple[str, int]]]] = {
    "all": ([], NONE, [LOGGER_OF_BROKER, BROKER, *TOPICS]),
    "every type": ([2, 4, 8, 16, 32], NONE, [LOGGER_OF_BROKER, BROKER, *TOPICS]),
    "topics": ([2], NONE, TOPICS),
    "brokers": ([4], NONE, [BROKER]),
    "loggers": ([8], NONE, [LOGGER_OF_BROKER]),
    "client metrics": ([16], NONE, []),
    "groups": ([32], NONE, []),
    "in Kafka's order, each once": ([2, 4, 2, 8], NONE, [LOGGER_OF_BROKER, BROKER, *TOPICS]),
    "type 0": ([0], ErrorCode.UNSUPPORTED_VERSION, []),
    "type 3": ([3], ErrorCode.UNSUPPORTED_VERSION, []),
    "type -1": ([-1], ErrorCode.UNSUPPORTED_VERSION, []),
    "an unknown type beside a known one": ([2, 99], ErrorCode.UNSUPPORTED_VERSION, []),
}


@pytest.mark.parametrize("case", RESOURCES)
async def test_list_config_resources(case: str, data_dir: Path) -> None:
    types, error, expected = RESOURCES[case]
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(ListConfigResourcesRequest(types), 1)
        actual = [(each.resource_name, each.resource_type) for each in response.config_resources]
        assert (response.error_code, actual) == (error, expected)


async def test_list_config_resources_version_0_returns_an_empty_list(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        make_topics(rig)
        response = rig.client().ask(ListConfigResourcesRequest(), 0)
        assert (response.error_code, list(response.config_resources)) == (NONE, [])
