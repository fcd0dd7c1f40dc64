"""Conditions that can be waited for, and the error when a condition does not become true in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stuntbroker.control.rules.conditions import read_condition, wait_until
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.kit.rig import Client, Rig, frame
from tests.kit.transactions.two_calls import begin
from tests.kit.valid_requests import batch

GROUP = "readers"


@pytest.fixture
async def client(rig: Rig) -> Client:
    rig.topic("t")
    client = rig.client()
    begin(client)
    rig.log("t", 0).append_own(bytearray(batch(3)))
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 2)])
    client.ask(OffsetCommitRequest(GROUP, -1, "", topics=[topic]), 7)
    return client


TRUE: dict[str, Any] = {
    "phase": {"transactional_id": "pay", "phase": "Ongoing"},
    "open": {"transactional_id": "pay", "is_open": True},
    "epoch": {"transactional_id": "pay", "producer_epoch": 0},
    "stable offset": {"topic": "t", "last_stable_offset": 3},
    "less than there is": {"topic": "t", "partition": 0, "end_offset": 1},
    "committed offset": {"group": GROUP, "topic": "t", "committed_offset": 2},
    "members": {"group": GROUP, "members": 0, "state": "Empty"},
    "all of it": {"transactional_id": "pay", "phase": "Ongoing", "topic": "t", "end_offset": 3},
}
FALSE: dict[str, tuple[Any, str]] = {
    "phase": ({"transactional_id": "pay", "phase": "CompleteCommit"}, "phase of pay is Ongoing, not CompleteCommit"),
    "unknown id": ({"transactional_id": "x", "is_open": False}, "is_open of x is nothing, not False"),
    "offset": ({"topic": "t", "last_stable_offset": 4}, "last_stable_offset of t-0 is 3, not 4"),
    "unknown topic": ({"topic": "x", "end_offset": 0}, "end_offset of x-0 is nothing, not 0"),
    "unknown partition": ({"topic": "t", "partition": 9, "end_offset": 0}, "end_offset of t-9 is nothing, not 0"),
    "committed offset": (
        {"group": GROUP, "topic": "t", "committed_offset": 3},
        "committed_offset of readers in t-0 is 2, not 3",
    ),
    "never committed": (
        {"group": "others", "topic": "t", "committed_offset": 0},
        "committed_offset of others in t-0 is nothing, not 0",
    ),
    "unknown group": ({"group": "x", "members": 1}, "members of x is nothing, not 1"),
    "one of two": ({"topic": "t", "end_offset": 3, "last_stable_offset": 9}, "last_stable_offset of t-0 is 3, not 9"),
}


@pytest.mark.parametrize("name", TRUE)
async def test_a_true_condition_is_not_waited_for(name: str, rig: Rig, client: Client) -> None:
    assert await wait_until(lambda: rig.broker, read_condition(TRUE[name]), 0) == []


@pytest.mark.parametrize("name", FALSE)
async def test_a_false_condition_is_reported_with_the_actual_value(name: str, rig: Rig, client: Client) -> None:
    condition, text = FALSE[name]
    assert await wait_until(lambda: rig.broker, read_condition(condition), 0) == [text]


async def test_waiting_ends_when_the_condition_becomes_true_even_with_a_paused_clock(rig: Rig, client: Client) -> None:
    waiting = asyncio.create_task(
        wait_until(lambda: rig.broker, read_condition({"transactional_id": "pay", "phase": "CompleteCommit"}), 10)
    )
    await asyncio.sleep(0)
    assert not waiting.done()
    txn = rig.broker.transactions.state_of("pay")
    assert txn is not None
    client.feed(frame(EndTxnRequest("pay", txn.producer_id, txn.producer_epoch, True), 4))
    assert await waiting == []


WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], "until must be an object"),
    "another field": ({"topics": "t"}, "until has no topics"),
    "nothing": ({}, "until has no condition"),
    "an id alone": ({"transactional_id": "pay"}, "until has no condition"),
    "a phase of nobody": ({"phase": "Ongoing"}, "until.phase needs a transactional_id"),
    "another phase": ({"transactional_id": "pay", "phase": "Done"}, "until.phase must be one of Empty, Ongoing"),
    "another state": ({"group": "g", "state": "Done"}, "until.state must be one of "),
    "an offset in words": ({"topic": "t", "end_offset": "1"}, "until.end_offset must be a whole number"),
    "a truth in words": ({"transactional_id": "pay", "is_open": "no"}, "until.is_open must be true or false"),
    "an id that is no text": ({"transactional_id": 1, "is_open": True}, "until.transactional_id must be a text"),
    "a group of which nothing is said": (
        {"topic": "t", "end_offset": 0, "group": "g"},
        "until has no condition for the group",
    ),
    "an offset of no group": (
        {"topic": "t", "committed_offset": 1},
        "until.committed_offset needs a group and a topic",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_condition_is_refused_with_the_reason(name: str) -> None:
    condition, reason = WRONG[name]
    with pytest.raises(FaultError) as refused:
        read_condition(condition)
    assert str(refused.value).startswith(reason)
