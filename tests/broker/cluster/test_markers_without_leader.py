"""As in Kafka, a transaction that ends while one of its partitions has no leader stays prepared until the partition has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stuntbroker.broker.cluster.moves import change_leader, reassign, start_node, stop_node
from stuntbroker.control.rules.stops import Stops
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.topic_names import TXN_STATE
from tests.kit.rig import Client, Rig, decode, frame, running_rig, turn
from tests.kit.transactions.two_calls import begin

ID = "pay"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_rig(tmp_path / "data", {"stuntbroker.nodes": "3"}) as rig:
        for index, node_id in ((0, 1), (1, 2)):
            reassign(rig.broker, rig.topic("t", 2), index, [node_id])
        log = rig.broker.topics.internal_topic(TXN_STATE)
        change_leader(rig.broker, log, partition_for(ID, len(log.partitions)), 1)
        yield rig


def phase_of(rig: Rig) -> str:
    name: str = rig.broker.transactions.state_of(ID).phase.kafka_name
    return name


def markers(rig: Rig) -> list[int]:
    """How many control batches each partition has."""
    return [sum(header.control for header, _ in rig.log("t", index).batches()) for index in range(2)]


async def ended_without_leader(rig: Rig, client: Client, commit: bool = True) -> tuple[int, int]:
    """End a transaction while the node of t-1 is stopped; return its producer id and epoch."""
    given = begin(client, ID, partitions=(0, 1))
    stop_node(rig.broker, rig.broker.nodes.by_id[2])
    client.feed(frame(EndTxnRequest(ID, given.producer_id, given.producer_epoch, commit), 4))
    await turn()
    (answer,) = [decode(each, 26, 4) for each in client.answers()]
    assert answer.error_code == ErrorCode.NONE
    return given.producer_id, given.producer_epoch


@pytest.mark.parametrize("commit", [True, False])
async def test_a_partition_without_a_leader_delays_only_its_own_marker_until_the_leader_is_back(
    commit: bool, rig: Rig
) -> None:
    client = rig.client()
    outcome = "Commit" if commit else "Abort"
    await ended_without_leader(rig, client, commit)
    assert (phase_of(rig), markers(rig)) == (f"Prepare{outcome}", [1, 0])

    rig.broker.transactions.sweep()
    await turn()
    assert (phase_of(rig), markers(rig)) == (f"Prepare{outcome}", [1, 0])

    await start_node(rig.broker, rig.broker.nodes.by_id[2])
    await turn()
    assert (phase_of(rig), markers(rig)) == (f"Complete{outcome}", [1, 1])


async def test_requests_get_concurrent_transactions_while_a_marker_waits_for_a_leader(rig: Rig) -> None:
    client = rig.client()
    producer = await ended_without_leader(rig, client)
    added = AddPartitionsToTxnRequest((), ID, *producer, [AddPartitionsToTxnTopic("t", [0])])
    result = client.ask(added, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert result.partition_error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert client.ask(InitProducerIdRequest(ID, 60_000), 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_take_over_gets_concurrent_transactions_while_a_partition_has_no_leader(rig: Rig) -> None:
    client = rig.client()
    begin(client, ID, partitions=(0, 1))
    stop_node(rig.broker, rig.broker.nodes.by_id[2])
    for _ in range(2):
        client.feed(frame(InitProducerIdRequest(ID, 60_000), 4))
        await turn()
        (answer,) = [decode(each, 22, 4) for each in client.answers()]
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    await start_node(rig.broker, rig.broker.nodes.by_id[2])
    await turn()
    assert client.ask(InitProducerIdRequest(ID, 60_000), 4).error_code == ErrorCode.NONE


async def test_while_there_are_stops_no_marker_is_written_before_every_partition_has_a_leader(rig: Rig) -> None:
    stops = Stops(rig.broker)
    stop = stops.add("txn.marker.before", {"action": "park", "nth": 3})
    await ended_without_leader(rig, rig.client())
    assert (phase_of(rig), markers(rig)) == ("PrepareCommit", [0, 0])

    await start_node(rig.broker, rig.broker.nodes.by_id[2])
    await turn(12)
    assert (phase_of(rig), markers(rig), stop.matched) == ("CompleteCommit", [1, 1], 2)


async def test_a_topic_deleted_while_its_marker_waits_for_a_leader_needs_no_marker(rig: Rig) -> None:
    client = rig.client()
    await ended_without_leader(rig, client)
    client.ask(DeleteTopicsRequest([DeleteTopicState("t")], (), 1_000), 6)
    rig.broker.transactions.sweep()
    await turn()
    assert phase_of(rig) == "CompleteCommit"
