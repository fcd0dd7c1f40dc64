"""The same steps with the same pauses get the same responses with the test clock and with the system clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stuntbroker.broker import group_ports
from stuntbroker.broker.clock import Clock
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.protocol.batches.records import build_batch, read_header
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.list_groups_request import ListGroupsRequest
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kit.groups.group_requests import commit, fetch_offset
from tests.kit.produce_and_fetch import fetch, produce
from tests.kit.rig import Client, Rig, decode, frame, running_rig, turn
from tests.kit.transactions.two_calls import add, begin
from tests.kit.valid_requests import TOPIC

SHORT_MS = 150
"""Time-out, retention or expiry time in these tests, in ms."""
WAIT_MS = 700
"""Time to wait for it: enough for the next sweep, which comes every 100 ms."""
SIZE = 2_000
EXPIRING = {"transactional.id.expiration.ms": str(SHORT_MS)}
SHORT_RETENTION = {"offsets.retention.minutes": str(SHORT_MS), "offsets.retention.check.interval.ms": "100"}
"""With minutes of a millisecond."""
FORGETFUL = {"producer.id.expiration.ms": str(SHORT_MS), "producer.id.expiration.check.interval.ms": "100"}
SHORT_SESSIONS = {"group.min.session.timeout.ms": "1"}
Wait = Callable[[int], Awaitable[None]]
Steps = Callable[[Rig, Client, Wait], Awaitable[list[Any]]]


async def a_transaction_times_out(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    given = begin(client, timeout_ms=SHORT_MS)
    await wait(WAIT_MS)
    ended = client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, True), 4)
    renewed = client.ask(InitProducerIdRequest("pay", 60_000, given.producer_id, given.producer_epoch), 4)
    return [given.producer_epoch, ended.error_code, renewed.error_code, renewed.producer_epoch]


async def an_unused_id_expires(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    given = client.ask(InitProducerIdRequest("pay", 60_000), 4)
    await wait(WAIT_MS)
    listed = client.ask(ListTransactionsRequest(), 1).transaction_states
    add(client, given)
    ended = client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, True), 4)
    return [len(listed), ended.error_code]


async def a_member_that_is_silent_is_thrown_out(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    client.feed(frame(JoinGroupRequest("g", SHORT_MS, 60_000, "", None, "consumer", protocols), 3))
    await wait(1)
    (answer,) = client.answers()
    joined = decode(answer, 11, 3)
    parts = [SyncGroupRequestAssignment(joined.member_id, b"all")]
    synced = client.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=parts), 2)
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    await wait(WAIT_MS)
    after = client.ask(beat, 2).error_code
    (group,) = client.ask(ListGroupsRequest(), 4).groups
    return [synced.error_code, after, group.group_state]


async def a_long_poll_ends(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    rig.topic(TOPIC)
    client.feed(frame(fetch(0, SHORT_MS), 11))
    await wait(WAIT_MS)
    return [decode(each, 1, 11).responses[0].partitions[0].error_code for each in client.answers()]


def produced(client: Client, clock: Clock, **stamped: int) -> int:
    """Produce a batch with one current record, large enough for compaction; return the error code."""
    data = bytes(build_batch([(b"key", b"v" * SIZE)], clock.now_ms(), **stamped))
    answer = client.ask(produce(data), 8)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def first_offset(client: Client) -> int:
    """Return the offset of the first record that still exists."""
    answer = client.ask(fetch(0, 0), 11).responses[0].partitions[0]
    return read_header(bytes(answer.records)).base_offset


async def old_records_are_deleted(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    rig.topic(TOPIC, retention_ms=str(SHORT_MS))
    replies = [produced(client, rig.broker.clock)]
    await wait(WAIT_MS)
    answer = client.ask(fetch(0, 0), 11).responses[0].partitions[0]
    return [*replies, answer.error_code, client.ask(fetch(1, 0), 11).responses[0].partitions[0].log_start_offset]


async def what_was_overwritten_is_compacted_away(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    rig.topic(TOPIC, cleanup_policy="compact")
    for _ in range(2):
        produced(client, rig.broker.clock)
    before = first_offset(client)
    await wait(WAIT_MS)
    return [before, first_offset(client)]


async def an_offset_of_a_group_without_members_expires(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    rig.topic(TOPIC)
    committed = [commit(client, 5), *fetch_offset(client)]
    await wait(WAIT_MS)
    return [*committed, *fetch_offset(client)]


async def the_sequences_of_a_silent_producer_are_forgotten(rig: Rig, client: Client, wait: Wait) -> list[Any]:
    rig.topic(TOPIC)
    of_producer = {"producer_id": 7, "producer_epoch": 0}
    replies = [produced(client, rig.broker.clock, base_sequence=each, **of_producer) for each in (0, 5)]
    await wait(WAIT_MS)
    return [*replies, produced(client, rig.broker.clock, base_sequence=5, **of_producer)]


@asynccontextmanager
async def running(is_test_s: bool, properties: dict[str, str]) -> Any:
    """Run a broker; yield its rig, and a function that lets time pass."""
    clock = TestClock()
    if is_test_s:
        clock.pause()
    async with running_rig(None, properties, clock=clock) as rig:
        rig.broker.timers.stand_still(is_test_s)
        control = Control(rig.broker)

        async def wait(ms: int) -> None:
            if is_test_s:
                await control.clock.advance(ms)
            else:
                await asyncio.sleep(ms / 1_000)
            await turn()

        yield rig, wait


@pytest.mark.parametrize(
    "steps, properties, expected",
    [
        (a_transaction_times_out, {}, [0, 90, 0, 1]),
        (an_unused_id_expires, EXPIRING, [0, 49]),
        (a_member_that_is_silent_is_thrown_out, SHORT_SESSIONS, [0, 25, "Empty"]),
        (a_long_poll_ends, {}, [0]),
        (old_records_are_deleted, {"log.retention.check.interval.ms": "100"}, [0, 1, 1]),
        (what_was_overwritten_is_compacted_away, {"log.cleaner.backoff.ms": "100"}, [0, 1]),
        (an_offset_of_a_group_without_members_expires, SHORT_RETENTION, [0, 0, 5, 0, -1]),
        (the_sequences_of_a_silent_producer_are_forgotten, FORGETFUL, [0, 45, 0]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_the_same_steps_get_the_same_replies_by_either_clock(
    steps: Steps, properties: dict[str, str], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_ports, "MINUTE_MS", 1)
    replies = []
    for is_test_s in (True, False):
        async with running(is_test_s, properties) as (rig, wait):
            rig.topic("t", 1)
            replies.append(await steps(rig, rig.client(), wait))

    assert replies == [expected, expected]
