"""A client that disconnects does not affect the responses to other clients in the same turn of the event loop.

uvloop refuses writes as soon as the client has closed its end, and reports the disconnect to the connection later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.leave_group_request import LeaveGroupRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kit.groups.group_requests import GROUP, end, init, pair, write
from tests.kit.produce_and_fetch import fetch
from tests.kit.rig import START_MS, Client, Rig, cut, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC, batch

PRODUCE, END_TXN, JOIN_GROUP, SYNC_GROUP = 0, 26, 11, 14


def _join(client: Client, member_id: str = "") -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    client.feed(frame(JoinGroupRequest(GROUP, 30_000, 30_000, member_id, None, "consumer", protocols), 3))


def _joined(client: Client) -> Any:
    return decode(client.answers()[0], JOIN_GROUP, 3)


def _group_of_two(rig: Rig) -> tuple[Client, Client, SyncGroupRequest, SyncGroupRequest]:
    """A leader and a follower of one generation, and the SyncGroup request of each."""
    leader, follower = rig.client(), rig.client()
    _join(leader)
    rig.pass_time(0)
    alone = _joined(leader)
    assert not leader.ask(_sync(alone, [alone.member_id]), 3).error_code
    _join(follower)
    _join(leader, alone.member_id)
    first, second = _joined(leader), _joined(follower)
    assert first.generation_id == second.generation_id
    assert first.leader == first.member_id
    return leader, follower, _sync(first, [first.member_id, second.member_id]), _sync(second, [])


def _sync(joined: Any, members: list[str]) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(member_id, b"x") for member_id in members]
    return SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, None, "consumer", "range", given)


def _produce() -> bytes:
    topics = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch())])]
    return frame(ProduceRequest(None, -1, 1_000, topics), 9)


@pytest.mark.parametrize("sent", ["Produce", "EndTxn"])
async def test_a_closed_group_follower_loses_no_response_of_another_client(data_dir: Path, sent: str) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        leader, follower, sync_of_leader, sync_of_follower = _group_of_two(rig)
        stranger = rig.client()
        owner = pair(init(stranger, "payments"))
        assert not write(stranger, "payments", owner, "42 EUR")
        follower.feed(frame(sync_of_follower, 3))
        assert follower.answers() == []

        follower.close_unnoticed()
        leader.feed(frame(sync_of_leader, 3))
        request = _produce() if sent == "Produce" else frame(EndTxnRequest("payments", *owner, True), 5)
        stranger.feed(request)
        rig.broker.turn.end()
        follower.disconnect()

        assert not decode(_only(leader), SYNC_GROUP, 3).error_code
        key, version = (PRODUCE, 9) if sent == "Produce" else (END_TXN, 5)
        answer: Any = decode(_only(stranger), key, version)
        error = answer.responses[0].partition_responses[0].error_code if sent == "Produce" else answer.error_code
        assert error == ErrorCode.NONE
        if sent == "Produce":
            assert not end(stranger, "payments", owner).error_code
        assert rig.log(TOPIC, 0).last_stable_offset == rig.log(TOPIC, 0).next_offset


async def test_a_closed_follower_does_not_crash_the_request_that_answers_it(data_dir: Path) -> None:
    """Without a sync to wait for, the leader's request writes the follower's response directly to the closed transport."""
    async with running_rig(data_dir) as rig:
        leader, follower, sync_of_leader, sync_of_follower = _group_of_two(rig)
        follower.feed(frame(sync_of_follower, 3))
        rig.broker.turn.end()
        follower.close_unnoticed()
        leader.ask(_left(sync_of_leader), 0)
        assert not leader.transport.closed
        assert not rig.events.crashes()


def _left(member: SyncGroupRequest) -> LeaveGroupRequest:
    return LeaveGroupRequest(GROUP, member.member_id)


def _only(client: Client) -> bytes:
    actual = cut(client.transport.sent)
    client.transport.sent.clear()
    assert len(actual) == 1
    return actual[0]


@pytest.mark.parametrize(
    ("fault", "closes", "events"),
    [
        (RuntimeError("the handler is closed"), True, []),
        (RuntimeError("the handler is closed"), False, ["response_rejected"]),
        (BufferError("a mistake of ours"), True, ["response_rejected"]),
    ],
    ids=["a client that has gone", "a transport that stays open", "any other fault"],
)
async def test_a_transport_that_refuses_a_response_is_closed_and_errors_not_caused_by_a_client_are_logged(
    fault: Exception, closes: bool, events: list[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        refused, other = rig.client(), rig.client()
        if not closes:
            monkeypatch.setattr(refused.transport, "is_closing", lambda: False)
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(1))])]

        def refuse(out: object) -> None:
            raise fault

        refused.transport.write = refuse  # type: ignore[method-assign]
        refused.feed(frame(ProduceRequest(None, -1, 1_000, data), 9))
        other.feed(frame(ProduceRequest(None, -1, 1_000, data), 9))
        assert len(other.answers()) == 1
        assert refused.transport.aborted
        assert [name for name in rig.events.names() if name == "response_rejected"] == events


async def test_a_transport_that_refuses_many_records_is_closed_and_others_have_theirs(data_dir: Path) -> None:
    records = bytes(build_batch([(b"k", bytes(20_000))], START_MS))
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        refused, other = rig.client(), rig.client()

        def refuse(parts: object) -> None:
            raise RuntimeError("the handler is closed")

        refused.transport.writelines = refuse  # type: ignore[method-assign]
        for client in (refused, other):
            client.feed(frame(fetch(), 12))
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])]
        rig.client().feed(frame(ProduceRequest(None, -1, 1_000, data), 9))
        await turn()
        assert refused.transport.aborted
        assert len(other.answers()) == 1
