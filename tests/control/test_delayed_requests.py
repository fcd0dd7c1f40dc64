"""Late requests over a socket, and their effects on the current transaction."""

from __future__ import annotations

from typing import Any

import pytest

from stuntbroker.control.control import Control
from stuntbroker.control.delayed_requests import deliver, read_delayed_request
from stuntbroker.control.own_requests import NoResponseError
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.control_rules import rule
from tests.kit.rig import Client, Rig
from tests.kit.transactions.two_calls import add, begin
from tests.kit.valid_requests import batch


@pytest.fixture
def client(rig: Rig) -> Client:
    rig.topic("t", 2)
    return rig.client()


async def send_late(rig: Rig, control: Control, api: str, **fields: Any) -> list[str]:
    rule = {"api": api, "transactional_id": "pay", **fields}
    answer = await deliver(rig.broker, read_delayed_request(rig.broker, control.requests, rule))
    assert answer["api"] == api and answer["answer"]
    errors: list[str] = answer["errors"]
    return errors


def phase_of(rig: Rig) -> str:
    return str(rig.broker.transactions.state_of("pay").phase.kafka_name)


def produce(client: Client, producer_id: int, epoch: int, sequence: int = 0) -> list[int]:
    data = batch(1, producer_id, epoch, sequence)
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, data)])
    answer = client.ask(ProduceRequest("pay", -1, 1_000, [topic]), 9)
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]


async def test_a_late_commit_of_version_1_ends_the_next_transaction(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, True), 4)
    add(client, given)
    assert phase_of(rig) == "Ongoing"
    assert await send_late(rig, control, "EndTxn") == []
    assert phase_of(rig) == "CompleteCommit"


async def test_a_late_commit_of_version_2_is_refused(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    ended = client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, True), 5)
    assert ended.producer_epoch == given.producer_epoch + 1
    add(client, ended)
    assert await send_late(rig, control, "EndTxn") == ["PRODUCER_FENCED"]
    assert phase_of(rig) == "Ongoing"


async def test_a_late_add_partitions_of_version_1_reopens_the_transaction(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, False), 4)
    assert phase_of(rig) == "CompleteAbort"
    assert await send_late(rig, control, "AddPartitionsToTxn") == []
    assert phase_of(rig) == "Ongoing"


async def test_late_records_are_accepted_unless_their_producer_is_fenced(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    assert produce(client, given.producer_id, given.producer_epoch) == [ErrorCode.NONE]
    assert await send_late(rig, control, "Produce", values=["more"]) == []
    assert await send_late(rig, control, "Produce", values=["and", "more"]) == []
    successor = client.ask(InitProducerIdRequest("pay", 60_000), 4)
    assert successor.producer_epoch > given.producer_epoch
    assert await send_late(rig, control, "Produce", sequence=2) == ["INVALID_PRODUCER_EPOCH"]
    log = rig.log("t", 0)
    assert [header.count for header, _ in log.batches() if not header.control] == [1, 1, 2]


async def test_a_late_marker_of_an_old_epoch_is_refused(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    produce(client, given.producer_id, given.producer_epoch)
    client.ask(InitProducerIdRequest("pay", 60_000), 4)
    old = {"topic": "t", "partition": 0, "producer_epoch": given.producer_epoch}
    assert await send_late(rig, control, "WriteTxnMarkers", **old) == ["INVALID_PRODUCER_EPOCH"]


async def test_a_late_marker_takes_ids_and_outcome_from_the_last_end_txn(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, False), 4)
    rule = {"api": "WriteTxnMarkers", "transactional_id": "pay", "topic": "t"}
    described = read_delayed_request(rig.broker, control.requests, rule)
    assert (described.producer_id, described.committed, described.places) == (given.producer_id, False, [("t", 0)])
    assert await send_late(rig, control, "WriteTxnMarkers", topic="t") == []


async def test_a_late_request_is_modelled_on_requests_of_clients_only(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, True), 4)
    await send_late(rig, control, "EndTxn", committed=False, producer_epoch=7)
    late_again = read_delayed_request(rig.broker, control.requests, {"api": "EndTxn", "transactional_id": "pay"})
    assert (late_again.producer_epoch, late_again.committed) == (given.producer_epoch, True)


async def test_a_late_request_without_a_valid_response_raises_an_error(
    rig: Rig, control: Control, client: Client
) -> None:
    begin(client)
    control.stops.add("txn.end.before", {"action": "fail"})
    with pytest.raises(NoResponseError, match="the broker closed the connection without a response"):
        await send_late(rig, control, "EndTxn")
    assert phase_of(rig) == "Ongoing"
    control.injector.add(rule("EndTxn", corrupt=True))
    with pytest.raises(NoResponseError, match="the response cannot be decoded"):
        await send_late(rig, control, "EndTxn")


async def test_a_late_request_with_more_partitions_than_logged_is_refused(
    rig: Rig, control: Control, client: Client
) -> None:
    rig.topic("many", 30)
    begin(client)
    given = client.ask(InitProducerIdRequest("pay", 60_000), 4)
    add(client, given, "pay", range(30), topic="many")
    with pytest.raises(FaultError, match="20 or more topics or partitions"):
        await send_late(rig, control, "AddPartitionsToTxn")
    assert await send_late(rig, control, "AddPartitionsToTxn", topic="many", partition=3) == []


WRONG: dict[str, tuple[Any, str]] = {
    "another api": ({"api": "Fetch", "transactional_id": "pay"}, "'Fetch' cannot be delivered late"),
    "an api that is no name": ({"api": 26, "transactional_id": "pay"}, "26 cannot be delivered late"),
    "no id": ({"api": "EndTxn"}, "transactional_id must be"),
    "an id that nobody has": ({"api": "EndTxn", "transactional_id": "x"}, "there is no transactional id 'x'"),
    "another field": ({"api": "EndTxn", "transactional_id": "pay", "when": 1}, "late has no when"),
    "another version": ({"api": "EndTxn", "transactional_id": "pay", "version": 99}, "EndTxn has no version 99"),
    "an epoch too high": (
        {"api": "EndTxn", "transactional_id": "pay", "producer_epoch": 40_000},
        "late.producer_epoch must be a whole number from 0 to 32767",
    ),
    "an outcome in words": (
        {"api": "EndTxn", "transactional_id": "pay", "committed": "yes"},
        "late.committed must be true or false",
    ),
    "values that are none": (
        {"api": "Produce", "transactional_id": "pay", "values": "x"},
        "late.values must be a list",
    ),
    "a topic that is no text": ({"api": "Produce", "transactional_id": "pay", "topic": 1}, "late.topic must be a text"),
    "a partition of no topic": (
        {"api": "Produce", "transactional_id": "pay", "partition": 2},
        "late.partition needs a topic",
    ),
    "no partition": ({"api": "Produce", "transactional_id": "pay"}, "the request names no partition"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_an_invalid_late_request_is_refused_with_the_reason(
    name: str, rig: Rig, control: Control, client: Client
) -> None:
    client.ask(InitProducerIdRequest("pay", 60_000), 4)
    rule, reason = WRONG[name]
    with pytest.raises(FaultError) as refused:
        read_delayed_request(rig.broker, control.requests, rule)
    assert str(refused.value).startswith(reason)
