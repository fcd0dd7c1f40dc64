"""A Produce request to very many partitions does not delay other clients, and gets the same response as short requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.produce.long_produce import PARTITIONS_AT_ONCE
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.bystander import Bystander
from tests.kit.groups.group_requests import init, pair
from tests.kit.rig import KEYS, START_MS, Client, Rig, SyncedAtOnce, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC

COUNT = 3 * PARTITIONS_AT_ONCE + 7
OTHER = "other"
EXECUTORS = {"process": None, "power": SyncedAtOnce()}


def request(owner: tuple[int, int] | None, acks: int = -1, sequence: int = 0) -> ProduceRequest:
    """Return a request with a record for each partition of TOPIC, for one unknown partition, and for partitions of OTHER."""
    producer: dict[str, Any] = {}
    if owner is not None:
        producer = {
            "producer_id": owner[0],
            "producer_epoch": owner[1],
            "base_sequence": sequence,
            "attributes": TRANSACTIONAL,
        }
    data = bytes(build_batch([(b"k", b"v")], START_MS, **producer))
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(index, data) for index in range(count)])
        for name, count in ((TOPIC, COUNT + 1), (OTHER, 9))
    ]
    return ProduceRequest(None if owner is None else "txn", acks, 1_000, topics)


async def finish(rig: Rig, client: Client, request: ProduceRequest, version: int) -> tuple[Any, int]:
    """Send the request; return the response, and the number of turns of the event loop before it."""
    client.feed(frame(request, version))
    turns = 0
    while client.connection.is_busy:
        await turn(1)
        turns += 1
        assert turns < 10 * COUNT
    answers = client.answers()
    return (decode(answers[0], KEYS["Produce"], version) if answers else None), turns


def codes(response: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(part.index, part.error_code) for part in topic.partition_responses]
        for topic in response.responses
    }


EXPECTED = {
    TOPIC: [*((index, 0) for index in range(COUNT)), (COUNT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    OTHER: [(index, 0) for index in range(9)],
}


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("version", [9, 12])
async def test_a_long_produce_appends_to_and_answers_for_every_partition(version: int, durability: str) -> None:
    async with running_rig(durability=durability, executor=EXECUTORS[durability]) as rig:
        rig.topic(TOPIC, COUNT)
        rig.topic(OTHER, 9)
        client = rig.client()
        for number in range(2):
            response, turns = await finish(rig, client, request(None), version)
            assert codes(response) == EXPECTED
            assert turns >= COUNT // PARTITIONS_AT_ONCE
            assert {log.next_offset for name in (TOPIC, OTHER) for log in rig.logs(name)} == {number + 1}


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_long_transactional_produce_adds_all_its_partitions_to_the_transaction(durability: str) -> None:
    async with running_rig(durability=durability, executor=EXECUTORS[durability]) as rig:
        rig.topic(TOPIC, COUNT)
        rig.topic(OTHER, 9)
        client = rig.client()
        client.feed(frame(_init(), 5))
        while client.connection.is_busy:
            await turn(1)
        answer = decode(client.answers()[0], KEYS["InitProducerId"], 5)
        owner = (answer.producer_id, answer.producer_epoch)
        for sequence in range(2):
            response, _ = await finish(rig, client, request(owner, sequence=sequence), 12)
            assert codes(response) == EXPECTED
        assert len(rig.actor("txn").txn.partitions) == COUNT + 9
        fenced, _ = await finish(rig, client, request((owner[0], owner[1] + 1), sequence=0), 12)
        assert {code for _, code in codes(fenced)[OTHER]} == {ErrorCode.INVALID_PRODUCER_EPOCH}


def _init() -> Any:
    from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest

    return InitProducerIdRequest("txn", 60_000)


async def test_a_long_produce_with_acks_0_gets_no_response_and_an_error_closes_the_connection(
    data_dir: Path,
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, COUNT + 1)
        rig.topic(OTHER, 9)
        client = rig.client()
        response, _ = await finish(rig, client, request(None, acks=0), 9)
        assert response is None and not client.transport.closed
        assert {log.next_offset for log in rig.logs(TOPIC)} == {1}
        rig.broker.topics.delete(rig.broker.topics.get(OTHER))
        response, _ = await finish(rig, client, request(None, acks=0), 9)
        assert response is None and client.transport.closed


async def test_a_long_produce_ends_when_its_client_disconnects(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, COUNT)
        rig.topic(OTHER, 9)
        client = rig.client()
        client.feed(frame(request(None), 9))
        client.disconnect()
        await turn(COUNT)
        assert not rig.broker.long_requests
        Bystander(rig).work()


async def test_ended_transactions_of_long_requests_leave_nothing_open(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, COUNT)
        rig.topic(OTHER, 9)
        client = rig.client()
        owner = pair(init(client, "txn"))
        response, _ = await finish(rig, client, request(owner), 12)
        assert codes(response) == EXPECTED
        client.feed(frame(_end(owner), 5))
        for _ in range(COUNT):
            rig.pass_time(0)
            if not client.connection.is_busy:
                break
            await turn(1)
        assert not decode(client.answers()[0], KEYS["EndTxn"], 5).error_code
        assert all(log.last_stable_offset == log.next_offset for log in rig.logs(TOPIC))


def _end(owner: tuple[int, int]) -> Any:
    from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest

    return EndTxnRequest("txn", *owner, True)


async def test_a_commit_of_very_many_offsets_is_written_in_several_batches(data_dir: Path) -> None:
    async with running_rig(data_dir, {"offsets.topic.num.partitions": "1"}) as rig:
        count = 3_007
        rig.topic(TOPIC, count)
        client = rig.client()
        partitions = [OffsetCommitRequestPartition(index, index) for index in range(count)]
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(TOPIC, partitions=partitions)])
        client.feed(frame(request, 8))
        turns = 0
        while client.connection.is_busy:
            await turn(1)
            turns += 1
        answer = decode(client.answers()[0], KEYS["OffsetCommit"], 8)
        assert [(part.partition_index, part.error_code) for part in answer.topics[0].partitions] == [
            (i, 0) for i in range(count)
        ]
        assert turns >= 3
        assert sum(1 for _ in rig.log("__consumer_offsets", 0).batches()) >= 4
