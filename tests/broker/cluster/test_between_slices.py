"""A long request stays correct when other requests change the state between two of its slices, or while it waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.cluster.moves import change_leader, reassign, start_node, stop_node
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.control.host import BrokerHost
from stuntbroker.protocol.acls import ALLOW, LITERAL, Acl, Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from tests.kit.disk_rig import Disk
from tests.kit.rig import Client, FakeTransport, Rig, decode, frame, running_rig, turn
from tests.kit.transactions.two_calls import add, begin
from tests.kit.valid_requests import batch

NO_OFFSET = -1
TURNS = 60
"""More turns of the event loop than any request here needs."""
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def delete(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest([DeleteTopicState(topic)], (), 1_000)


def create(*topics: tuple[str, int]) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name, partitions in topics], 1_000)


def commit_offset(client: Client, topic: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(0, offset, -1, "")
    request = OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic(topic, partitions=[partition])])
    assert not client.ask(request, 8).topics[0].partitions[0].error_code


def committed_offset(client: Client, topic: str) -> int:
    wanted = OffsetFetchRequestGroup("group", topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
    [group] = client.ask(OffsetFetchRequest(groups=[wanted]), 8).groups
    return int(group.topics[0].partitions[0].committed_offset)


def feed(client: Client, request: Any, version: int) -> None:
    client.feed(frame(request, version))
    assert not client.answers()


async def response_of(client: Client, key: int, version: int) -> Any:
    await turn(TURNS)
    [answer] = client.answers()
    return decode(answer, key, version)


# --- markers


def markers(rig: Rig) -> list[int]:
    """Return the number of markers in each partition of the topic."""
    return [sum(header.control for header, _ in log.batches()) for log in rig.logs("t")]


def write(client: Client, owner: Any, index: int) -> None:
    data = batch(1, owner.producer_id, owner.producer_epoch, 0)
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(index, data)])
    [part] = client.ask(ProduceRequest("txn", -1, 1_000, [topic]), 9).responses[0].partition_responses
    assert not part.error_code


async def end(client: Client, owner: Any) -> None:
    client.feed(frame(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, True), 4))
    assert not (await response_of(client, 26, 4)).error_code


async def test_every_partition_gets_its_marker_when_a_node_returns_that_led_several(tmp_path: Path) -> None:
    """The next transaction of the same transactional id also gets all of its markers."""
    async with running_rig(tmp_path / "data", {"stuntbroker.nodes": "3"}) as rig:
        nodes, topic = rig.broker.nodes.by_id, rig.topic("t", 4)
        for index, node in enumerate((1, 2, 2, 1)):
            reassign(rig.broker, topic, index, [node])
        log = rig.broker.topics.internal_topic(TXN_STATE)
        change_leader(rig.broker, log, partition_for("txn", len(log.partitions)), 1)
        at_1, at_2 = rig.client(), rig.client(1)
        owner = begin(at_1, "txn", partitions=(0, 1, 2))
        for client, index in ((at_1, 0), (at_2, 1), (at_2, 2)):
            write(client, owner, index)
        stop_node(rig.broker, nodes[2])
        await end(at_1, owner)
        assert markers(rig) == [1, 0, 0, 0]

        await start_node(rig.broker, nodes[2])
        await turn(TURNS)
        assert markers(rig) == [1, 1, 1, 0]
        assert rig.actor("txn").txn.phase.kafka_name == "CompleteCommit"

        owner = at_1.ask(InitProducerIdRequest("txn", 60_000), 4)
        add(at_1, owner, "txn", (3,))
        write(at_1, owner, 3)
        stop_node(rig.broker, nodes[3])  # Markers are written in slices while a node is stopped.
        await end(at_1, owner)
        assert markers(rig) == [1, 1, 1, 1]
        assert rig.log("t", 3).last_stable_offset == rig.log("t", 3).next_offset


# --- topics


async def test_offsets_of_a_topic_do_not_come_back_when_the_broker_stops_while_it_is_deleted(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data") as rig:
        rig.topic("t", 500)
        client = rig.client()
        commit_offset(client, "t", 42)
        feed(rig.client(), delete("t"), 6)
        assert committed_offset(client, "t") == NO_OFFSET
    async with running_rig(tmp_path / "data") as rig:
        assert committed_offset(rig.client(), "t") == NO_OFFSET


async def test_metadata_creates_no_topic_without_permission_that_was_deleted_before_its_slice() -> None:
    async with running_rig(properties=AUTHORIZER) as rig:
        rig.broker.acls.add(Acl(Resource.TOPIC, "*", LITERAL, "User:*", "*", Operation.DESCRIBE, ALLOW))
        rig.topic("many", 1_500)
        topic = rig.topic("t")
        client = rig.client()
        feed(client, MetadataRequest([MetadataRequestTopic(name=name) for name in ("many", "t")], True), 8)
        rig.broker.topics.delete(topic)
        described = await response_of(client, 3, 8)
        assert [each.error_code for each in described.topics] == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert rig.broker.topics.get("t") is None


async def test_describe_producers_survives_a_topic_that_is_created_with_more_partitions() -> None:
    async with running_rig() as rig:
        rig.topic("t", 1)
        client, other = rig.client(), rig.client()
        feed(client, DescribeProducersRequest([TopicRequest("t", [7] * 1_500 + [5])]), 0)
        other.ask(delete("t"), 6)
        other.ask(create(("t", 10)), 5)
        [described] = (await response_of(client, 61, 0)).topics
        codes = [part.error_code for part in described.partitions]
        assert (codes[0], codes[-1]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE)


async def test_a_topic_is_refused_whose_name_collides_with_one_created_between_two_slices() -> None:
    async with running_rig() as rig:
        client, other = rig.client(), rig.client()
        feed(client, create(*((f"n{number}", 10) for number in range(30)), ("x.y", 1), ("a.b", 1), ("a_b", 1)), 5)
        assert not other.ask(create(("x_y", 1)), 5).topics[0].error_code
        created = {topic.name: topic.error_code for topic in (await response_of(client, 19, 5)).topics}
        assert created["x.y"] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (created["a.b"], created["a_b"]) == (0, 0)  # As in Kafka, topics of one request may collide.


async def test_a_produce_that_waits_for_its_coordinator_does_not_write_to_a_topic_that_is_being_deleted() -> None:
    disk = Disk()
    async with running_rig(durability="power", executor=disk) as rig:
        rig.topic("t", 40)
        logs = list(rig.logs("t"))
        for log in logs:
            log.create_first_segment()
        client = rig.client()
        client.feed(frame(InitProducerIdRequest("txn", 60_000), 4))
        for _ in range(TURNS):
            disk.drain()
            await turn()
        owner = decode(client.answers()[0], 22, 4)
        records = PartitionProduceData(39, batch(1, owner.producer_id, owner.producer_epoch, 0))
        feed(client, ProduceRequest("txn", -1, 1_000, [TopicProduceData("t", partition_data=[records])]), 12)
        feed(rig.client(), delete("t"), 6)
        for _ in range(TURNS):
            disk.drain()
            await turn()
        [part] = decode(client.answers()[0], 0, 12).responses[0].partition_responses
        assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert logs[39].next_offset == 0


# --- groups

MANY = 6_000


def many_commits(group: str) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(index, 42, -1, "") for index in range(MANY)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def many_offsets(group: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=list(range(MANY)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])


async def test_requests_in_slices_get_not_coordinator_after_the_coordinator_has_moved() -> None:
    async with running_rig(properties={"stuntbroker.nodes": "2"}) as rig:
        rig.topic("t", MANY)
        log = rig.broker.topics.internal_topic(OFFSETS)
        names = ["group", *(f"other-{number}" for number in range(300))]
        for index in {partition_for(name, len(log.partitions)) for name in names}:
            change_leader(rig.broker, log, index, 1)
        for name in names[1:]:
            partitions = [OffsetCommitRequestPartition(0, 42, -1, "")]
            rig.client().ask(
                OffsetCommitRequest(name, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]), 8
            )
        writer, reader, old_reader, deleter = rig.client(), rig.client(), rig.client(), rig.client()
        feed(writer, many_commits("group"), 8)
        await response_of(writer, 8, 8)

        feed(reader, many_offsets("group"), 8)
        feed(old_reader, OffsetFetchRequest("group", [OffsetFetchRequestTopic("t", list(range(MANY)))]), 1)
        feed(writer, many_commits("group"), 8)
        feed(deleter, DeleteGroupsRequest(names[1:]), 2)
        for index in {partition_for(name, len(log.partitions)) for name in ("group", names[-1])}:
            change_leader(rig.broker, log, index, 2, load_ms=60_000)

        [group] = (await response_of(reader, 9, 8)).groups
        assert (group.error_code, list(group.topics)) == (ErrorCode.NOT_COORDINATOR, [])
        [topic] = (await response_of(old_reader, 9, 1)).topics  # Version 1 has no error code per group.
        assert [part.error_code for part in topic.partitions] == [ErrorCode.NOT_COORDINATOR] * MANY
        committed = (await response_of(writer, 8, 8)).topics[0].partitions
        assert {part.error_code for part in committed} == {0, ErrorCode.NOT_COORDINATOR}
        deleted = {result.group_id: result.error_code for result in (await response_of(deleter, 42, 2)).results}
        assert (deleted[names[1]], deleted[names[-1]]) == (0, ErrorCode.NOT_COORDINATOR)


async def test_offsets_in_slices_are_not_committed_to_a_recreated_topic() -> None:
    async with running_rig() as rig:
        topic = rig.topic("t", MANY)
        client, other = rig.client(), rig.client()
        feed(client, many_commits("group"), 8)
        rig.broker.topics.delete(topic)
        rig.broker.topic_deleted("t")
        rig.topic("t", MANY)
        committed = (await response_of(client, 8, 8)).topics[0].partitions
        assert {part.error_code for part in committed} == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        feed(other, many_offsets("group"), 8)
        [group] = (await response_of(other, 9, 8)).groups
        assert {part.committed_offset for part in group.topics[0].partitions} == {NO_OFFSET}


@pytest.mark.parametrize("stable", [True, False])
async def test_offsets_fetched_in_slices_are_those_of_one_moment_whenever_a_transaction_ends(stable: bool) -> None:
    async with running_rig() as rig:
        rig.topic("t", MANY)
        writer, reader = rig.client(), rig.client()
        owner = writer.ask(InitProducerIdRequest("txn", 60_000), 4)
        partitions = [TxnOffsetCommitRequestPartition(index, 7, -1, "") for index in range(MANY)]
        offsets = [TxnOffsetCommitRequestTopic("t", partitions=partitions)]
        feed(writer, TxnOffsetCommitRequest("txn", "group", owner.producer_id, owner.producer_epoch, topics=offsets), 5)
        await response_of(writer, 28, 5)

        request = many_offsets("group")
        request.require_stable = stable
        feed(reader, request, 8)
        assert not writer.ask(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, True), 4).error_code
        [group] = (await response_of(reader, 9, 8)).groups

        error = ErrorCode.UNSTABLE_OFFSET_COMMIT if stable else ErrorCode.NONE
        actual = {(part.committed_offset, part.error_code) for part in group.topics[0].partitions}
        assert actual == {(NO_OFFSET, error)}
        assert committed_offset(reader, "t") == 7


# --- connections


async def test_a_client_that_was_accepted_just_before_its_node_stops_is_disconnected() -> None:
    async with running_rig(properties={"stuntbroker.nodes": "2"}) as rig:
        listener = next(each for each in rig.broker.listeners if each.node_id == 2)
        connection, transport = rig.broker.new_connection(listener), FakeTransport()
        stop_node(rig.broker, rig.broker.nodes.by_id[2])
        connection.connection_made(transport)
        assert transport.closed
        connection.connection_lost(None)
        await start_node(rig.broker, rig.broker.nodes.by_id[2])
        accepted, transport = rig.broker.new_connection(listener), FakeTransport()
        accepted.connection_made(transport)
        assert not transport.closed
        accepted.connection_lost(None)


# --- control


async def test_a_snapshot_waits_for_long_requests() -> None:
    async with running_rig(clock=TestClock()) as rig:
        host = BrokerHost(Control(rig.broker))
        client = rig.client()
        feed(client, create(*((f"n{number}", 10) for number in range(100))), 5)
        snapshot = await host.snapshot()
        assert not rig.broker.long_requests
        _, fork = await host.fork(snapshot)
        assert sum(topic.name.startswith("n") for topic in fork.broker.topics) == 100
        await host.remove_forks()


async def test_a_duplicated_txn_offset_commit_in_parts_is_whole_both_times() -> None:
    count = 2_500
    async with running_rig(clock=TestClock()) as rig:
        control = Control(rig.broker)
        rig.topic("t", count)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        control.injector.add({"match": {"api": "TxnOffsetCommit"}, "do": {"duplicate": True}})
        partitions = [TxnOffsetCommitRequestPartition(index, 1, -1, "") for index in range(count)]
        topic = TxnOffsetCommitRequestTopic("t", partitions=partitions)
        client.feed(
            frame(TxnOffsetCommitRequest("txn", "g", owner.producer_id, owner.producer_epoch, topics=[topic]), 5)
        )
        response = await response_of(client, 28, 5)
        assert sum(len(each.partitions) for each in response.topics) == count
        stored = [header for log in rig.logs(OFFSETS) for header, _ in log.batches() if header.transactional]
        assert sum(header.count for header in stored) == 2 * count
