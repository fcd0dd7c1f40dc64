"""Effects of a new leader, a new coordinator, or a stopped or restarted node on epochs, replicas, groups and markers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.cluster.moves import change_leader, elect_any, reassign, start_node, stop_node
from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.connections.binding import bind
from stuntbroker.broker.connections.listener import CannotListen, listeners_of
from stuntbroker.broker.metadata.topics import Topic, coordinator_of
from stuntbroker.protocol.batches.records import HEADER_SIZE, marker_of, read_records
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from stuntbroker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from stuntbroker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from stuntbroker.storage.errors import StorageError
from tests.kit.produce_and_fetch import produce
from tests.kit.rig import Client, Rig, decode, frame, running_rig, turn
from tests.kit.transactions.two_calls import begin, end
from tests.kit.valid_requests import batch

NODES = {"stuntbroker.nodes": "3", "offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_rig(tmp_path / "data", NODES) as rig:
        rig.topic("t", 3)
        yield rig


def topic_of(rig: Rig, name: str = "t") -> Topic:
    topic = rig.broker.topics.get(name)
    assert topic is not None
    return topic


def shown(rig: Rig, listener: int = 0) -> dict[int, tuple[int, int, list[int], list[int], list[int]]]:
    """Partition of `t` -> leader, leader epoch, replicas, in sync, offline."""
    answer = rig.client(listener).ask(MetadataRequest(None), 8)
    (topic,) = [each for each in answer.topics if each.name == "t"]
    return {
        part.partition_index: (
            part.leader_id, part.leader_epoch, part.replica_nodes, part.isr_nodes, part.offline_replicas,
        )
        for part in topic.partitions
    }  # fmt: skip


def fetch(offset: int = 0, leader_epoch: int = -1, last_fetched_epoch: int = -1, wait_ms: int = 0) -> FetchRequest:
    part = FetchPartition(0, leader_epoch, offset, last_fetched_epoch, -1, 1_000_000)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic("t", partitions=[part])]
    )


def fetched(client: Client, **fields: Any) -> Any:
    return client.ask(fetch(**fields), 12).responses[0].partitions[0]


def end_offset(client: Client, epoch: int, known: int = -1) -> tuple[int, int, int]:
    wanted = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, known, epoch)])]
    part = client.ask(OffsetForLeaderEpochRequest(-2, wanted), 4).topics[0].partitions[0]
    return part.error_code, part.leader_epoch, part.end_offset


async def test_metadata_shows_every_node_and_where_each_partition_is(rig: Rig) -> None:
    for listener in range(3):
        answer = rig.client(listener).ask(MetadataRequest(None), 8)

        assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
        assert answer.controller_id == 1
        assert shown(rig, listener) == {
            0: (1, 0, [1, 2, 3], [1, 2, 3], []), 1: (2, 0, [2, 3, 1], [2, 3, 1], []), 2: (3, 0, [3, 1, 2], [3, 1, 2], []),
        }  # fmt: skip


async def test_batches_carry_the_epoch_of_their_leader_and_each_epoch_ends_where_the_next_begins(rig: Rig) -> None:
    rig.client(0).ask(produce(batch(2), "t"), 9)
    change_leader(rig.broker, topic_of(rig), 0, 2)
    client = rig.client(1)
    client.ask(produce(batch(3), "t"), 9)

    assert [header.leader_epoch for header, _ in rig.log("t", 0).batches()] == [0, 1]
    assert shown(rig)[0][:2] == (2, 1)
    assert [end_offset(client, epoch) for epoch in (0, 1, 2)] == [(0, 0, 2), (0, 1, 5), (0, -1, -1)]
    fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    assert [end_offset(client, 0, known)[0] for known in (0, 1, 2, -1)] == [fenced, 0, unknown, 0]
    assert [fetched(client, leader_epoch=known).error_code for known in (0, 1, 2, -1)] == [fenced, 0, unknown, 0]


async def test_a_fetch_beyond_the_end_of_its_leader_epoch_gets_the_diverging_epoch(rig: Rig) -> None:
    rig.client(0).ask(produce(batch(2), "t"), 9)
    change_leader(rig.broker, topic_of(rig), 0, 2)
    client = rig.client(1)
    client.ask(produce(batch(3), "t"), 9)

    diverged = fetched(client, offset=4, last_fetched_epoch=0).diverging_epoch
    assert (diverged.epoch, diverged.end_offset) == (0, 2)
    assert fetched(client, offset=4, last_fetched_epoch=1).diverging_epoch is None
    assert fetched(client, offset=2, last_fetched_epoch=0).diverging_epoch is None
    assert fetched(client, offset=4, last_fetched_epoch=2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_that_waits_is_answered_when_its_leader_changes(rig: Rig) -> None:
    client = rig.client(0)
    client.feed(frame(fetch(wait_ms=60_000, leader_epoch=0), 12))
    assert client.answers() == []

    change_leader(rig.broker, topic_of(rig), 0, 2)
    await turn()

    (answer,) = client.answers()
    assert decode(answer, 1, 12).responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_leaders_and_epochs_survive_a_kill_and_a_restart(tmp_path: Path) -> None:
    for kill in (True, False):
        folder = tmp_path / str(kill)
        async with running_rig(folder, NODES) as rig:
            rig.topic("t", 3)
            rig.client(0).ask(produce(batch(2), "t"), 9)
            change_leader(rig.broker, topic_of(rig), 0, 2)
            rig.client(1).ask(produce(batch(3), "t"), 9)
            reassign(rig.broker, topic_of(rig), 2, [1])
            before = shown(rig)
            if kill:
                await rig.broker.abandon()
        async with running_rig(folder, NODES) as rig:
            assert shown(rig) == before
            assert rig.log("t", 0).next_offset == 5
            assert end_offset(rig.client(1), 0) == (0, 0, 2)
            rig.client(1).ask(produce(batch(1), "t"), 9)
            assert [header.leader_epoch for header, _ in rig.log("t", 0).batches()] == [0, 1, 1]


async def test_a_restart_with_one_node_moves_partitions_of_other_nodes_to_it_in_a_new_leader_epoch(
    tmp_path: Path,
) -> None:
    async with running_rig(tmp_path, NODES) as rig:
        rig.topic("t", 3)
        rig.client(1).ask(produce(batch(1), "t"), 9)  # Refused, as node 1 leads partition 0.
        rig.client(0).ask(produce(batch(1), "t"), 9)
    for _ in range(2):
        async with running_rig(tmp_path) as rig:
            assert {index: each[:3] for index, each in shown(rig).items()} == {
                0: (1, 0, [1]), 1: (1, 1, [1]), 2: (1, 1, [1]),
            }  # fmt: skip
            assert rig.log("t", 0).next_offset == 1


async def test_a_stopped_node_leaves_the_metadata_and_other_nodes_lead_its_partitions(rig: Rig) -> None:
    client = rig.client(1)
    stop_node(rig.broker, rig.broker.nodes.by_id[2])

    assert client.transport.aborted
    answer = rig.client(0).ask(MetadataRequest(None), 8)
    assert [broker.node_id for broker in answer.brokers] == [1, 3]
    assert shown(rig) == {
        0: (1, 0, [1, 2, 3], [1, 3], [2]), 1: (3, 1, [2, 3, 1], [3, 1], [2]), 2: (3, 0, [3, 1, 2], [3, 1], [2]),
    }  # fmt: skip
    await start_node(rig.broker, rig.broker.nodes.by_id[2])
    assert shown(rig)[1] == (3, 1, [2, 3, 1], [2, 3, 1], [])


async def test_a_node_comes_back_at_the_same_port(rig: Rig) -> None:
    node = rig.broker.nodes.by_id[2]
    (port,) = {address.port for each in node.listeners.values() for address in each.addresses}

    for _ in range(3):
        stop_node(rig.broker, node)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        await start_node(rig.broker, node)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


async def test_a_partition_whose_only_replica_is_stopped_has_no_leader_until_it_comes_back(rig: Rig) -> None:
    reassign(rig.broker, topic_of(rig), 0, [2])
    stop_node(rig.broker, rig.broker.nodes.by_id[2])

    answer = rig.client(0).ask(MetadataRequest(None), 8)
    (part,) = [p for t in answer.topics if t.name == "t" for p in t.partitions if p.partition_index == 0]
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
    assert shown(rig)[0] == (NO_LEADER, 2, [2], [2], [2])
    await start_node(rig.broker, rig.broker.nodes.by_id[2])
    assert shown(rig)[0] == (2, 3, [2], [2], [])


async def test_an_out_of_sync_replica_becomes_leader_only_by_an_unclean_election(rig: Rig) -> None:
    nodes = rig.broker.nodes.by_id
    reassign(rig.broker, topic_of(rig), 0, [2, 3])
    stop_node(rig.broker, nodes[2])
    stop_node(rig.broker, nodes[3])
    await start_node(rig.broker, nodes[2])
    assert shown(rig)[0][0] == NO_LEADER  # Only node 3, which is stopped, is in sync.

    def elect(kind: int) -> int:
        wanted = [TopicPartitions("t", [0])]
        answer = rig.client(0).ask(ElectLeadersRequest(kind, wanted, 1_000), 2)
        code: int = answer.replica_election_results[0].partition_result[0].error_code
        return code

    assert elect(0) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(1) == 0
    assert shown(rig)[0][0] == 2
    assert elect(1) == elect(0) == ErrorCode.ELECTION_NOT_NEEDED


async def test_an_unclean_election_that_fails_leaves_the_partition_as_it_was(rig: Rig) -> None:
    nodes, topic = rig.broker.nodes.by_id, topic_of(rig)
    reassign(rig.broker, topic, 0, [2, 3])
    stop_node(rig.broker, nodes[2])
    stop_node(rig.broker, nodes[3])
    await start_node(rig.broker, nodes[2])
    placement, events = topic.placements[0], rig.events.names().count("leader_changed")
    in_sync, journal = placement.in_sync, rig.broker.data_dir.journal

    def fail(change: object) -> None:
        raise StorageError("the disk is full")

    rig.broker.data_dir.journal = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        elect_any(rig.broker, topic, 0)

    rig.broker.data_dir.journal = journal  # type: ignore[method-assign]
    assert (placement.leader, placement.in_sync) == (NO_LEADER, in_sync) and in_sync == (3,)
    assert rig.events.names().count("leader_changed") == events


async def test_a_preferred_election_gives_every_partition_back_to_its_first_replica(rig: Rig) -> None:
    node = rig.broker.nodes.by_id[2]
    stop_node(rig.broker, node)
    await start_node(rig.broker, node)

    answer = rig.client(0).ask(ElectLeadersRequest(0, None, 1_000), 2)

    (result,) = [each for each in answer.replica_election_results if each.topic == "t"]
    assert [(part.partition_id, part.error_code) for part in result.partition_result] == [(1, 0)]
    assert shown(rig)[1][:2] == (2, 2)


async def test_markers_carry_the_epoch_of_their_coordinator(rig: Rig) -> None:
    topic = rig.broker.topics.internal_topic(TXN_STATE)
    place = coordinator_of(topic, "pay")
    client = rig.client(place.leader - 1)
    given = begin(client, "pay")
    end(client, given, "pay")
    other = place.leader % 3 + 1
    change_leader(rig.broker, topic, topic.placements.index(place), other)
    client = rig.client(other - 1)
    given = begin(client, "pay")
    end(client, given, "pay")

    markers = [
        marker_of(record)
        for header, data in rig.log("t", 0).batches()
        for record in read_records(header, data, HEADER_SIZE)
    ]
    assert markers == [(True, 0), (True, 1)]


async def test_a_folder_with_a_damaged_list_of_epochs_is_refused(tmp_path: Path) -> None:
    async with running_rig(tmp_path, NODES) as rig:
        rig.topic("t", 3)
        change_leader(rig.broker, topic_of(rig), 0, 2)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n")

    with pytest.raises(StorageError, match="leader-epoch-checkpoint is damaged"):
        async with running_rig(tmp_path, NODES):
            pass


async def test_a_coordinator_move_ends_a_waiting_join_with_not_coordinator_and_keeps_the_members(rig: Rig) -> None:
    topic = rig.broker.topics.internal_topic(OFFSETS)
    place = coordinator_of(topic, "g")
    index, other = topic.placements.index(place), place.leader % 3 + 1

    def join(client: Client, member_id: str) -> Any:
        request = JoinGroupRequest(
            "g", 30_000, 60_000, member_id, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
        )
        client.feed(frame(request, 3))
        return [decode(each, 11, 3) for each in client.answers()]

    first, second = rig.client(place.leader - 1), rig.client(place.leader - 1)
    (joined,) = join(first, "")
    sync = SyncGroupRequest(
        "g", joined.generation_id, joined.member_id, assignments=[SyncGroupRequestAssignment(joined.member_id, b"all")]
    )
    assert first.ask(sync, 2).error_code == 0
    assert join(second, "") == []  # The join waits until the first member rejoins.

    change_leader(rig.broker, topic, index, other, load_ms=100)

    (answer,) = second.answers()
    assert decode(answer, 11, 3).error_code == ErrorCode.NOT_COORDINATOR
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert first.ask(beat, 2).error_code == ErrorCode.NOT_COORDINATOR
    newer = rig.client(other - 1)
    assert newer.ask(beat, 2).error_code == 0  # As in Kafka, although the group is not loaded yet.
    rig.pass_time(100)
    assert newer.ask(beat, 2).error_code == 0
    rig.pass_time(29_999)
    assert newer.ask(beat, 2).error_code == 0  # Its session began when the group was loaded.
    rig.pass_time(30_001)
    assert newer.ask(beat, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_topic_and_its_replica_placements_are_one_journal_line(tmp_path: Path) -> None:
    """A single line makes the change atomic: after a fault or a kill, the journal has all of it or nothing."""
    async with running_rig(tmp_path, NODES) as rig:
        lines = rig.broker.data_dir.journal_lines
        rig.topic("t", 3)
        assert rig.broker.data_dir.journal_lines == lines + 1
        rig.broker.topics.add_partitions(topic_of(rig), 5)
        assert rig.broker.data_dir.journal_lines == lines + 2
        before = shown(rig)
        await rig.broker.abandon()
    async with running_rig(tmp_path, NODES) as rig:
        assert shown(rig) == before


async def test_partitions_that_could_not_be_added_leave_the_topic_as_it_was(rig: Rig) -> None:
    def fail(change: object) -> None:
        raise StorageError("the disk is full")

    before, rig.broker.data_dir.journal = shown(rig), fail  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        rig.broker.topics.add_partitions(topic_of(rig), 6)

    assert shown(rig) == before


async def test_stopping_a_node_can_be_repeated_when_it_failed_half_way(rig: Rig) -> None:
    node, journal = rig.broker.nodes.by_id[2], rig.broker.data_dir.journal

    def fail_once(change: dict[str, Any]) -> None:
        rig.broker.data_dir.journal = journal  # type: ignore[method-assign]
        raise StorageError("the disk is full")

    rig.broker.data_dir.journal = fail_once  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        stop_node(rig.broker, node)
    stop_node(rig.broker, node)

    assert {leader for leader, *_ in shown(rig).values()} == {1, 3}


async def test_a_node_start_that_cannot_bind_a_port_opens_no_listener_and_can_be_repeated(tmp_path: Path) -> None:
    listeners = "A://127.0.0.1:0,B://127.0.0.1:0"
    protocols = "A:PLAINTEXT,B:PLAINTEXT"
    two = {"stuntbroker.nodes": "2", "listeners": listeners, "listener.security.protocol.map": protocols}
    async with running_rig(tmp_path, two) as rig:
        node = rig.broker.nodes.by_id[2]
        ports = {name: each.addresses[0].port for name, each in node.listeners.items()}
        stop_node(rig.broker, node)
        (squatter,) = bind("127.0.0.1", ports["B"])
        squatter.listen()

        with pytest.raises(CannotListen):
            await start_node(rig.broker, node)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", ports["A"])
        squatter.close()
        await start_node(rig.broker, node)

        for port in ports.values():
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()


async def test_transactions_do_not_time_out_while_they_have_no_coordinator(tmp_path: Path) -> None:
    alone = {**NODES, "transaction.state.log.replication.factor": "1"}
    async with running_rig(tmp_path, alone) as rig:
        rig.topic("t", 3)
        topic = rig.broker.topics.internal_topic(TXN_STATE)
        leader = coordinator_of(topic, "pay").leader
        begin(rig.client(leader - 1), "pay", timeout_ms=1_000)
        stop_node(rig.broker, rig.broker.nodes.by_id[leader])

        rig.pass_time(5_000)
        assert rig.actor("pay").txn.phase.kafka_name == "Ongoing"
        await start_node(rig.broker, rig.broker.nodes.by_id[leader])
        rig.pass_time(200)
        assert rig.actor("pay").txn.phase.kafka_name == "CompleteAbort"


async def test_members_do_not_time_out_while_their_group_has_no_coordinator(tmp_path: Path) -> None:
    alone = {**NODES, "offsets.topic.replication.factor": "1"}
    async with running_rig(tmp_path, alone) as rig:
        leader = coordinator_of(rig.broker.topics.internal_topic(OFFSETS), "g").leader
        client = rig.client(leader - 1)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = client.ask(JoinGroupRequest("g", 6_000, 60_000, "", None, "consumer", protocols), 3)
        parts = [SyncGroupRequestAssignment(joined.member_id, b"all")]
        client.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=parts), 2)
        stop_node(rig.broker, rig.broker.nodes.by_id[leader])
        rig.pass_time(10_000)
        await start_node(rig.broker, rig.broker.nodes.by_id[leader])
        rig.pass_time(5_000)

        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        assert rig.client(leader - 1).ask(beat, 2).error_code == 0


async def test_removing_a_replica_starts_a_new_leader_epoch(rig: Rig) -> None:
    topic = topic_of(rig)
    for replicas, epoch in (([1, 2], 1), ([2, 1], 1), ([1, 2, 3], 1), ([1, 3], 2)):
        reassign(rig.broker, topic, 0, replicas)
        assert shown(rig)[0][:3] == (1, epoch, replicas)


async def test_list_offsets_for_latest_has_the_last_leader_epoch_despite_an_open_transaction(rig: Rig) -> None:
    client = rig.client(coordinator_of(rig.broker.topics.internal_topic(TXN_STATE), "pay").leader - 1)
    given = begin(client, "pay")
    data = batch(1, given.producer_id, given.producer_epoch, 0)
    rig.client(0).ask(produce(data, "t", transactional_id="pay"), 9)
    change_leader(rig.broker, topic_of(rig), 0, 2)

    wanted = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]
    part = rig.client(1).ask(ListOffsetsRequest(-1, 1, wanted), 6).topics[0].partitions[0]

    assert (part.offset, part.leader_epoch) == (0, 1)


async def test_a_partition_folder_whose_creation_was_interrupted_is_opened(tmp_path: Path) -> None:
    async with running_rig(tmp_path, NODES) as rig:
        rig.topic("t", 3)
        rig.client(0).ask(produce(batch(1), "t"), 9)
    for path in (tmp_path / "t-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()

    async with running_rig(tmp_path, NODES) as rig:
        rig.client(0).ask(produce(batch(1), "t"), 9)
        assert rig.log("t", 0).next_offset == 1


async def test_describe_cluster_includes_stopped_nodes_on_request(rig: Rig) -> None:
    stop_node(rig.broker, rig.broker.nodes.by_id[2])

    for wanted, expected in ((False, {1: False, 3: False}), (True, {1: False, 2: True, 3: False})):
        answer = rig.client(0).ask(DescribeClusterRequest(False, 1, wanted), 2)
        assert {broker.broker_id: broker.is_fenced for broker in answer.brokers} == expected


@pytest.mark.parametrize(
    "properties, text",
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:65534"}, "listeners: 3 nodes use 65534 and the 2 ports after it"),
        ({"listeners": "A://127.0.0.1:0", "advertised.listeners": "A://h:65535"}, "advertised.listeners: 3 nodes use"),
        (
            {"listeners": "A://127.0.0.1:9092,B://127.0.0.1:9093"},
            "two listeners have the port 9093: with 3 nodes",
        ),
        ({"node.id": str(2**31 - 1)}, "node.id: the ids of 3 nodes follow node.id"),
        ({"broker.id": str(2**31 - 1)}, "node.id: the ids of 3 nodes follow node.id"),
        ({"default.replication.factor": "4"}, "4 is above the number of brokers, 3"),
    ],
)
def test_an_invalid_cluster_configuration_is_refused_with_a_reason(properties: dict[str, str], text: str) -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    with pytest.raises(ConfigError) as raised:
        listeners_of(BrokerConfig({**NODES, **protocols, **properties}))
    assert text in str(raised.value)
