"""The response of a node to a request for another node's partition, group or transactional id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stuntbroker.broker.cluster.assignments import problem_of_assignments
from stuntbroker.broker.cluster.gate import COORDINATOR_LIST_APIS, GATED, GROUP_OF
from stuntbroker.broker.cluster.moves import change_leader, stop_node
from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.plain_messages import error_codes
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_groups_request import ListGroupsRequest
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from tests.kit.rig import Rig, decode, frame, running_rig
from tests.kit.valid_requests import GROUP, MAY_WAIT, TOPIC, TXN, batch, valid_request

NODES = {"stuntbroker.nodes": "3", "offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
FETCH = 1
SINGLE = {0, 2, 21, 23}
"""APIs that are about a partition of TOPIC; the others here are about GROUP or TXN."""
CASES = [
    (key, v)
    for key in sorted(GATED - COORDINATOR_LIST_APIS.keys())
    for v in range(SERVED[key].oldest, SERVED[key].newest + 1)
]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running_rig(None, NODES) as rig:
        rig.topic(TOPIC, 3)
        for name in (OFFSETS, TXN_STATE):
            rig.broker.topics.internal_topic(name)
        yield rig


def leader_of(rig: Rig, key: int) -> int:
    """Return the node that leads the partition, or coordinates the group or id, of `valid_request`."""
    topics = rig.broker.topics
    if key in SINGLE or key == FETCH:
        return topics.get(TOPIC).placements[0].leader  # type: ignore[union-attr]
    name, of = (GROUP, OFFSETS) if key in GROUP_OF else (TXN, TXN_STATE)
    return coordinator_of(topics.internal_topic(of), name).leader


def codes(answer: Any) -> set[int]:
    return set(error_codes(answer)) or {0}


@pytest.mark.parametrize("key, version", CASES, ids=[f"{APIS[key].name}-v{version}" for key, version in CASES])
async def test_a_request_to_the_wrong_node_gets_not_leader_or_not_coordinator(key: int, version: int, rig: Rig) -> None:
    topic = rig.broker.topics.get(TOPIC)
    assert topic is not None
    wrong = leader_of(rig, key) % 3  # The listener of the next node (node n has listener n - 1).

    answer = rig.client(wrong).ask(valid_request(key, version, topic.id), version)

    assert codes(answer) == {ErrorCode.NOT_LEADER_OR_FOLLOWER if key in SINGLE else ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("key, version", CASES, ids=[f"{APIS[key].name}-v{version}" for key, version in CASES])
async def test_a_request_to_the_leader_or_coordinator_reaches_its_handler(key: int, version: int, rig: Rig) -> None:
    topic = rig.broker.topics.get(TOPIC)
    assert topic is not None
    client = rig.client(leader_of(rig, key) - 1)

    client.feed(frame(valid_request(key, version, topic.id), version))
    answers = client.answers()

    assert answers or key in MAY_WAIT
    refused = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert not {code for each in answers for code in codes(decode(each, key, version))} & refused


@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch_is_served_by_every_replica_from_version_11_on(version: int, rig: Rig) -> None:
    topic = rig.broker.topics.get(TOPIC)
    assert topic is not None
    request = valid_request(FETCH, version, topic.id)
    request.max_wait_ms = 0  # type: ignore[attr-defined]

    follower = codes(rig.client(1).ask(request, version))
    topic.placements[0].replicas = (1, 3)
    stranger = codes(rig.client(1).ask(request, version))

    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER in follower) is (version < 11)
    assert stranger == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def produce_to(rig: Rig, indexes: list[int], version: int, acks: int = -1) -> ProduceRequest:
    topic = rig.broker.topics.get(TOPIC)
    assert topic is not None
    parts = [PartitionProduceData(index, batch()) for index in indexes]
    name, topic_id = (TOPIC, bytes(16)) if version < 13 else ("", topic.id)
    return ProduceRequest(None, acks, 1_000, [TopicProduceData(name, topic_id, parts)])


@pytest.mark.parametrize("version", range(3, 14))
async def test_a_produce_writes_only_the_partitions_that_the_node_leads(version: int, rig: Rig) -> None:
    answer = rig.client(1).ask(produce_to(rig, [0, 1, 2], version), version)

    parts = {part.index: part for topic in answer.responses for part in topic.partition_responses}
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert {index: part.error_code for index, part in parts.items()} == {0: wrong, 1: 0, 2: wrong}
    assert [log.next_offset for log in rig.logs(TOPIC)] == [0, 2, 0]
    if version >= 10:
        assert parts[0].current_leader.leader_id == 1
        assert [(each.node_id, each.port) for each in answer.node_endpoints] == [
            (node, rig.broker.listeners[node - 1].addresses[0].port) for node in (1, 3)
        ]


async def test_acks_0_writes_the_partitions_that_the_node_leads_and_closes_the_connection_for_others(rig: Rig) -> None:
    client = rig.client(1)
    client.feed(frame(produce_to(rig, [0, 1], 9, acks=0), 9))

    assert client.answers() == []
    assert client.transport.closed
    assert [log.next_offset for log in rig.logs(TOPIC)] == [0, 2, 0]


async def test_with_all_acks_there_must_be_enough_replicas_in_sync(rig: Rig) -> None:
    rig.topic("safe", 1, min_insync_replicas="2")
    topic = rig.broker.topics.get("safe")
    assert topic is not None
    request = ProduceRequest(None, -1, 1_000, [TopicProduceData("safe", bytes(16), [PartitionProduceData(0, batch())])])
    client = rig.client(0)
    assert codes(client.ask(request, 9)) == {0}
    for node in (2, 3):
        stop_node(rig.broker, rig.broker.nodes.by_id[node])

    assert codes(client.ask(request, 9)) == {ErrorCode.NOT_ENOUGH_REPLICAS}
    request.acks = 1
    assert codes(client.ask(request, 9)) == {0}


async def test_list_offsets_returns_offsets_only_of_partitions_that_the_node_leads(rig: Rig) -> None:
    wanted = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(index, -1, -1) for index in range(3)])]

    answer = rig.client(2).ask(ListOffsetsRequest(-1, 0, wanted), 6)

    parts = {part.partition_index: part.error_code for topic in answer.topics for part in topic.partitions}
    assert parts == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: 0}


def ids_by_node(rig: Rig, of: str) -> dict[int, str]:
    """Return, for each node, a name whose coordinator that node is."""
    topic = rig.broker.topics.internal_topic(of)
    return {coordinator_of(topic, f"name-{n}").leader: f"name-{n}" for n in range(60)}


async def test_describe_groups_describes_only_groups_that_the_node_coordinates(rig: Rig) -> None:
    names = ids_by_node(rig, OFFSETS)

    answer = rig.client(0).ask(DescribeGroupsRequest(list(names.values())), 5)

    assert {group.group_id: group.error_code for group in answer.groups} == {
        names[1]: 0, names[2]: ErrorCode.NOT_COORDINATOR, names[3]: ErrorCode.NOT_COORDINATOR,
    }  # fmt: skip


async def test_each_node_lists_and_describes_the_transactions_that_it_coordinates(rig: Rig) -> None:
    names = ids_by_node(rig, TXN_STATE)
    for node, name in names.items():
        assert rig.client(node - 1).ask(InitProducerIdRequest(name, 60_000), 4).error_code == 0

    for node, name in names.items():
        client = rig.client(node - 1)
        listed = client.ask(ListTransactionsRequest(), 1)
        described = client.ask(DescribeTransactionsRequest(list(names.values())), 0)

        assert [each.transactional_id for each in listed.transaction_states] == [name]
        outcomes = {each.transactional_id: each.error_code for each in described.transaction_states}
        assert outcomes == dict.fromkeys(names.values(), ErrorCode.NOT_COORDINATOR) | {name: 0}


async def test_partitions_are_added_to_the_transactions_that_the_node_coordinates(rig: Rig) -> None:
    names = ids_by_node(rig, TXN_STATE)
    given = {node: rig.client(node - 1).ask(InitProducerIdRequest(n, 60_000), 4) for node, n in names.items()}
    transactions = [
        AddPartitionsToTxnTransaction(
            name, given[node].producer_id, given[node].producer_epoch, False, [AddPartitionsToTxnTopic(TOPIC, [0])]
        )
        for node, name in names.items()
    ]

    answer = rig.client(0).ask(AddPartitionsToTxnRequest(transactions), 4)

    outcomes = {
        each.transactional_id: {
            part.partition_error_code for topic in each.topic_results for part in topic.results_by_partition
        }
        for each in answer.results_by_transaction
    }
    assert outcomes == {
        names[1]: {0},
        names[2]: {ErrorCode.NOT_COORDINATOR},
        names[3]: {ErrorCode.NOT_COORDINATOR},
    }


async def test_a_loading_coordinator_returns_coordinator_load_in_progress(rig: Rig) -> None:
    topic = rig.broker.topics.internal_topic(TXN_STATE)
    names = ids_by_node(rig, TXN_STATE)
    place = coordinator_of(topic, names[1])
    change_leader(rig.broker, topic, topic.placements.index(place), 2, load_ms=500)
    client, init = rig.client(1), InitProducerIdRequest(names[1], 60_000)

    assert client.ask(init, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.ask(ListTransactionsRequest(), 1).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.pass_time(499)
    assert client.ask(init, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.pass_time(1)
    assert client.ask(init, 4).error_code == 0
    assert client.ask(ListGroupsRequest(), 4).error_code == 0


@pytest.mark.parametrize("node", [1, 2])
async def test_each_group_has_the_error_of_its_own(node: int, rig: Rig) -> None:
    topic = rig.broker.topics.internal_topic(OFFSETS)
    names = ids_by_node(rig, OFFSETS)
    change_leader(rig.broker, topic, topic.placements.index(coordinator_of(topic, names[1])), 2, load_ms=500)

    answer = rig.client(node - 1).ask(DescribeGroupsRequest(list(names.values())), 5)

    loading, elsewhere = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
    assert {group.group_id: group.error_code for group in answer.groups} == {
        1: {names[1]: elsewhere, names[2]: elsewhere, names[3]: elsewhere},
        2: {names[1]: loading, names[2]: 0, names[3]: elsewhere},
    }[node]


@pytest.mark.parametrize("version", range(7))
async def test_every_node_answers_find_coordinator_with_the_coordinating_node(version: int, rig: Rig) -> None:
    for key_type, of in ((0, OFFSETS), (1, TXN_STATE)) if version else ((0, OFFSETS),):
        for node, name in ids_by_node(rig, of).items():
            for listener in range(3):
                answer = rig.client(listener).ask(FindCoordinatorRequest(name, key_type, [name]), version)

                shown = answer.coordinators[0] if version >= 4 else answer
                port = rig.broker.listeners[node - 1].addresses[0].port
                if node == listener + 1:
                    port = 9_092  # The port that the client connected to.
                assert (shown.error_code, shown.node_id, shown.port) == (0, node, port)


async def test_a_response_lists_a_topic_once_even_if_several_nodes_lead_its_partitions(rig: Rig) -> None:
    produced = rig.client(1).ask(produce_to(rig, [0, 1, 2], 12), 12)
    wanted = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(index, -1, -1) for index in range(3)])]
    looked_up = rig.client(1).ask(ListOffsetsRequest(-1, 0, wanted), 6)

    assert [topic.name for topic in produced.responses] == [topic.name for topic in looked_up.topics] == [TOPIC]


async def test_an_assignment_to_stopped_nodes_only_or_to_invalid_replicas_is_refused(rig: Rig) -> None:
    nodes = rig.broker.nodes
    stop_node(rig.broker, nodes.by_id[2])

    assert problem_of_assignments([[1, 2], [2, 3]], nodes) is None
    for assignments, factor, text in (
        ([[1], [2]], None, "for partition 1 are fenced or in controlled shutdown"),
        ([[1, 2], [1]], None, "1 replica(s), but this is not consistent with previous partitions, which have 2"),
        ([[1]], 3, "1 replica(s), but this is not consistent with previous partitions, which have 3"),
        ([[1, 9]], None, "broker 9, but no such broker is registered"),
        ([[1, 1]], None, "the broker 1 more than once"),
        ([[]], None, "an empty replica list"),
    ):
        assert text in (problem_of_assignments(assignments, nodes, factor) or "")


@pytest.mark.parametrize(
    "key, version, path, value",
    [
        (26, 5, ("producer_id",), -1),
        (26, 5, ("producer_epoch",), -1),
        (9, 1, ("topics", "partitions", "committed_offset"), -1),
        (9, 10, ("groups", "topics"), []),
        (11, 9, ("protocol_name",), None),
        (13, 5, ("members",), []),
        (21, 2, ("topics", "partitions", "low_watermark"), -1),
        (23, 4, ("topics", "partitions", "leader_epoch"), -1),
        (24, 5, ("error_code",), 0),
        (47, 0, ("topics",), []),
    ],
)
async def test_the_other_fields_of_an_error_response_are_those_of_kafka(
    key: int, version: int, path: tuple[str, ...], value: Any, rig: Rig
) -> None:
    topic = rig.broker.topics.get(TOPIC)
    assert topic is not None

    answer = rig.client(leader_of(rig, key) % 3).ask(valid_request(key, version, topic.id), version)

    for name in path[:-1]:
        answer = getattr(answer, name)[0]
    assert getattr(answer, path[-1]) == value
