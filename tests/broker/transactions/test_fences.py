"""A fenced producer is logged in one event, with the cause and, if known, the client that fenced it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.transactions.fences import FENCING, Refusal
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stuntbroker.storage.marker import new_marker
from tests.kit.groups.group_requests import Pair, add_offsets, commit_in_txn, end, init, pair, write
from tests.kit.rig import Client, Rig, running_rig
from tests.kit.valid_requests import TOPIC

ID = "pay-1"
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
ZOMBIE, SUCCESSOR = ("10.0.0.7", 4_711), ("10.0.0.8", 4_812)


def described(rig: Rig) -> list[dict[str, Any]]:
    return [facts for name, facts in rig.events.kept if name == "producer_fenced"]


def take_over(rig: Rig, client_id: bytes) -> Pair:
    client = rig.client(peer=SUCCESSOR)
    return pair(client.ask(InitProducerIdRequest(ID, 60_000), 5, client_id=client_id))


def _produce(client: Client, owner: Pair, version: int) -> int:
    return write(client, ID, owner, "late", sequence=1, version=version)


REQUESTS: dict[str, Callable[[Client, Pair], int]] = {
    "EndTxn": lambda client, owner: end(client, ID, owner).error_code,
    "Produce 12": lambda client, owner: _produce(client, owner, 12),
    "Produce 11": lambda client, owner: _produce(client, owner, 11),
    "AddOffsetsToTxn": lambda client, owner: add_offsets(client, ID, owner),
    "TxnOffsetCommit": lambda client, owner: commit_in_txn(client, ID, owner, 1),
    "InitProducerId": lambda client, owner: init(client, ID, owner=owner).error_code,
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_fenced_producer_is_logged_once_with_its_successor(data_dir: Path, name: str) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        zombie = rig.client(peer=ZOMBIE)
        owner = pair(init(zombie, ID))
        assert not write(zombie, ID, owner, "42 EUR")
        rig.clock.ms += 5
        take_over(rig, b"worker-2")
        rig.clock.ms += 1_203
        assert described(rig) == []
        for _ in range(3):
            assert REQUESTS[name](zombie, owner) in FENCED
        assert described(rig) == [{
            "transactional_id": ID, "client_id": "test", "client": "10.0.0.7:4711", "cause": "newer_instance",
            "by_client_id": "worker-2", "by_client": "10.0.0.8:4812", "fenced_before_ms": 1_203,
        }]  # fmt: skip


async def test_each_fenced_producer_is_logged_with_its_own_fence(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        zombie, successor = rig.client(peer=ZOMBIE), rig.client(peer=SUCCESSOR)
        first = pair(init(zombie, ID))
        second = pair(successor.ask(InitProducerIdRequest(ID, 60_000), 5, client_id=b"worker-2"))
        assert not write(successor, ID, second, "42 EUR")
        rig.pass_time(60_001)
        for _ in range(2):
            assert end(zombie, ID, first).error_code in FENCED
            assert write(successor, ID, second, "late", sequence=1) in FENCED
        assert [(facts["client"], facts["cause"], facts.get("by_client_id")) for facts in described(rig)] == [
            ("10.0.0.7:4711", "newer_instance", "worker-2"),
            ("10.0.0.8:4812", "timeout", None),
        ]


async def test_a_producer_is_identified_by_its_epoch_on_every_connection(data_dir: Path) -> None:
    """librdkafka sends InitProducerId and records over different connections."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        refusals: list[Refusal] = []
        rig.broker.transactions.fences.refused = refusals.append
        seen_ms = rig.clock.now_ms()
        first = pair(init(rig.client(peer=ZOMBIE), ID))
        rig.clock.ms += 5
        take_over(rig, b"worker-2")
        third = take_over(rig, b"worker-3")
        other = rig.client(peer=("10.0.0.7", 4_712))
        assert write(other, ID, first, "late") in FENCED
        assert write(other, ID, third, "42 EUR") == ErrorCode.NONE
        [refusal] = refusals
        assert refusal.fence is not None and refusal.fence.by_client_id == "worker-2"
        assert refusal.first_seen_ms == seen_ms


@pytest.mark.parametrize("has_predecessor", [False, True])
async def test_a_late_request_of_a_producer_that_continued_is_logged_as_late_request(
    data_dir: Path, has_predecessor: bool
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        if has_predecessor:
            init(rig.client(peer=ZOMBIE), ID)
        client = rig.client(peer=SUCCESSOR)
        owner = pair(init(client, ID))
        assert not write(client, ID, owner, "42 EUR")
        done = end(client, ID, owner)
        later = done.producer_id, done.producer_epoch
        assert not write(client, ID, later, "43 EUR")
        other = rig.client(peer=("10.0.0.8", 4_813))
        assert end(other, ID, owner).error_code in FENCED
        assert write(other, ID, owner, "late", sequence=1) in FENCED
        assert {facts["cause"] for facts in described(rig)} == {"late_request"}
        assert end(client, ID, later).error_code == ErrorCode.NONE


@pytest.mark.parametrize("initial_epoch", ["0", "32765"])
async def test_a_producer_that_continues_is_recognised_with_a_new_epoch_or_producer_id(
    data_dir: Path, initial_epoch: str
) -> None:
    """The producer requests a new epoch over another connection (KIP-360), and gets a new producer id when epochs run out."""
    async with running_rig(data_dir, {"stuntbroker.initial.producer.epoch": initial_epoch}) as rig:
        rig.topic(TOPIC)
        refusals: list[Refusal] = []
        rig.broker.transactions.fences.refused = refusals.append
        take_over(rig, b"worker-1")
        rig.clock.ms += 70
        seen_ms = rig.clock.now_ms()
        owner = pair(init(rig.client(peer=ZOMBIE), ID))
        other = rig.client(peer=("10.0.0.7", 4_712))
        later = pair(init(other, ID, owner=owner))
        for value in ("42 EUR", "43 EUR"):
            assert not write(other, ID, later, value)
            done = end(other, ID, later)
            later = done.producer_id, done.producer_epoch
        assert (later[0] == owner[0]) is (initial_epoch == "0")
        assert end(other, ID, owner).error_code in FENCING
        rig.clock.ms += 5
        take_over(rig, b"worker-2")
        assert end(other, ID, later).error_code in FENCING
        assert [each.fence and (each.fence.cause, each.fence.by_client_id) for each in refusals] == [
            ("late_request", ""),
            ("newer_instance", "worker-2"),
        ]
        assert [each.first_seen_ms for each in refusals] == [seen_ms] * 2


async def test_of_two_fences_of_one_epoch_the_last_is_reported(data_dir: Path) -> None:
    """A marker written by an administrator does not bump the epoch, so a newer instance can fence the same epoch again."""
    async with running_rig(data_dir) as rig:
        topic = rig.topic(TOPIC)
        client = rig.client(peer=ZOMBIE)
        owner = pair(init(client, ID))
        assert not write(client, ID, owner, "42 EUR")
        marker = WritableTxnMarker(*owner, False, [WritableTxnMarkerTopic(topic.name, [0])], 0)
        rig.client(peer=SUCCESSOR).ask(WriteTxnMarkersRequest([marker]), 1)
        take_over(rig, b"worker-2")
        assert end(client, ID, owner).error_code in FENCED
        assert [facts["cause"] for facts in described(rig)] == ["newer_instance"]


@pytest.mark.parametrize("partitions_of_a_request", [1, 6])
async def test_markers_in_many_partitions_are_one_fence(partitions_of_a_request: int, data_dir: Path) -> None:
    """The broker remembers only the latest fences of an id, and the earlier fence of the zombie must still be among them."""
    async with running_rig(data_dir) as rig:
        topic = rig.topic(TOPIC, partitions=6)
        zombie, successor = rig.client(peer=ZOMBIE), rig.client(peer=SUCCESSOR)
        first, owner = pair(init(zombie, ID)), take_over(rig, b"worker-2")
        assert not write(successor, ID, owner, "42 EUR")
        for start in range(0, 6, partitions_of_a_request):
            indexes = list(range(start, start + partitions_of_a_request))
            marker = WritableTxnMarker(*owner, False, [WritableTxnMarkerTopic(topic.name, indexes)], 0)
            rig.client().ask(WriteTxnMarkersRequest([marker]), 1)
        take_over(rig, b"worker-3")
        assert write(successor, ID, owner, "more", sequence=1) in FENCED
        assert end(zombie, ID, first).error_code in FENCED
        assert [facts["by_client_id"] for facts in described(rig)] == ["worker-3", "worker-2"]


async def test_the_current_epoch_is_not_logged_as_late_request(data_dir: Path) -> None:
    """A partition may have seen a higher epoch than the coordinator, for example in a forged marker."""
    async with running_rig(data_dir) as rig:
        topic = rig.topic(TOPIC)
        client = rig.client(peer=SUCCESSOR)
        producer_id, epoch = pair(init(client, ID))
        topic.partitions[0].append_marker(new_marker(False, producer_id, epoch + 5, 0, 1, rig.clock.now_ms()))
        assert write(client, ID, (producer_id, epoch), "42 EUR") in FENCED
        assert [facts["cause"] for facts in described(rig)] == ["unknown"]


async def test_an_unallocated_epoch_is_not_logged_as_late_request(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client(peer=SUCCESSOR)
        producer_id, epoch = pair(init(client, ID))
        assert end(client, ID, (producer_id, epoch + 5)).error_code in FENCED
        assert [facts["cause"] for facts in described(rig)] == ["unknown"]


async def test_each_fence_of_a_producer_is_logged_once(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        zombie = rig.client(peer=ZOMBIE)
        for client_id in (b"worker-2", b"adminclient-1"):
            owner = pair(init(zombie, ID))
            take_over(rig, client_id)
            assert end(zombie, ID, owner).error_code in FENCED
        assert [facts["cause"] for facts in described(rig)] == ["newer_instance", "admin"]


async def test_a_time_out_is_reported_as_the_cause(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client(peer=ZOMBIE)
        owner = pair(init(client, ID))
        assert not write(client, ID, owner, "42 EUR")
        rig.pass_time(60_001)
        assert write(client, ID, owner, "late", sequence=1) in FENCED
        [facts] = described(rig)
        assert (facts["cause"], "by_client" in facts) == ("timeout", False)


async def test_epochs_that_are_used_up_are_reported_as_the_cause(data_dir: Path) -> None:
    async with running_rig(data_dir, {"stuntbroker.initial.producer.epoch": "32766"}) as rig:
        rig.topic(TOPIC)
        client = rig.client(peer=ZOMBIE)
        owner = pair(init(client, ID))
        assert not write(client, ID, owner, "42 EUR")
        successor = take_over(rig, b"worker-2")
        assert successor[0] != owner[0]
        refusals: list[Refusal] = []
        rig.broker.transactions.fences.refused = refusals.append
        assert write(client, ID, owner, "late", sequence=1) in FENCED
        for request in (add_offsets(client, ID, owner), end(client, ID, owner).error_code):
            assert request == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert [facts["cause"] for facts in described(rig)] == ["epoch_exhausted"]
        assert [APIS[each.api_key].name for each in refusals] == ["Produce", "AddOffsetsToTxn", "EndTxn"]


async def test_requests_with_a_producer_id_that_was_never_fenced_log_no_fence(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = pair(init(client, ID))
        answer = end(client, ID, (owner[0] + 1, 0))
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert described(rig) == []


async def test_offsets_of_a_non_member_are_logged_as_fenced_by_the_group_generation(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        refusals: list[Refusal] = []
        rig.broker.transactions.fences.refused = refusals.append
        client = rig.client(peer=ZOMBIE)
        seen_ms = rig.clock.now_ms()
        owner = pair(init(client, ID))
        rig.clock.ms += 70
        code = commit_in_txn(client, ID, owner, 1, member_id="gone", generation=1)
        assert code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
        [facts] = described(rig)
        assert (facts["cause"], facts["fenced_before_ms"]) == ("group_generation", 0)
        assert [each.first_seen_ms for each in refusals] == [seen_ms]


async def test_a_fence_reports_when_the_producer_got_its_id(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        refusals: list[Refusal] = []
        rig.broker.transactions.fences.refused = refusals.append
        client = rig.client(peer=ZOMBIE)
        rig.clock.ms += 70
        seen_ms = rig.clock.now_ms()
        owner = pair(init(client, ID))
        rig.clock.ms += 5
        take_over(rig, b"worker-2")
        assert end(client, ID, owner).error_code in FENCED
        [refusal] = refusals
        assert refusal.first_seen_ms == seen_ms


async def test_a_fence_of_before_the_start_is_reported_without_a_cause(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        owner = pair(init(rig.client(), ID))
        take_over(rig, b"worker-2")
    async with running_rig(data_dir) as rig:
        client = rig.client(peer=ZOMBIE)
        answer = client.ask(EndTxnRequest(ID, *owner, True), 5)
        assert answer.error_code in FENCED
        assert [facts["cause"] for facts in described(rig)] == ["unknown"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_marker_with_a_stale_coordinator_epoch_is_reported_once_for_all_its_partitions(
    restarted: bool, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 2)
        client = rig.client()
        owner = pair(init(client, ID))
        topics = [WritableTxnMarkerTopic(TOPIC, [0, 1])]

        def mark(client: Client, coordinator_epoch: int) -> set[int]:
            marker = WritableTxnMarker(*owner, False, topics, coordinator_epoch)
            [result] = client.ask(WriteTxnMarkersRequest([marker]), 1).markers
            return {part.error_code for part in result.topics[0].partitions}

        assert mark(client, 7) == {0}
        if not restarted:
            assert mark(client, 6) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
            assert [(facts["cause"], facts["transactional_id"]) for facts in described(rig)] == [
                ("coordinator_move", ID)
            ]
    if restarted:
        async with running_rig(data_dir) as rig:
            assert mark(rig.client(), 6) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
            assert [(facts["cause"], facts["transactional_id"]) for facts in described(rig)] == [
                ("coordinator_move", ID)
            ]


async def test_requests_of_the_current_producer_log_no_fence(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, ID))
        owner = pair(init(client, ID, owner=owner))
        assert not write(client, ID, owner, "42 EUR")
        assert not end(client, ID, owner).error_code
        assert described(rig) == []


async def test_a_refused_producer_whose_id_expired_is_logged_as_id_expired(data_dir: Path) -> None:
    expiration_ms = 60_000
    async with running_rig(data_dir, {"transactional.id.expiration.ms": str(expiration_ms)}) as rig:
        rig.topic(TOPIC)
        sleeper, stranger = rig.client(peer=ZOMBIE), rig.client(peer=SUCCESSOR)
        owner = pair(init(sleeper, ID))
        rig.clock.ms += 2 * expiration_ms
        rig.broker.transactions.expire()

        assert end(sleeper, ID, owner).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert end(stranger, "never there", owner).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        (facts,) = described(rig)
        assert (facts["cause"], facts["client"]) == ("id_expired", "10.0.0.7:4711")
