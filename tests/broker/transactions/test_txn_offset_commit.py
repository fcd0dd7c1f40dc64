"""TxnOffsetCommit over the wire (KIP-447): which members may commit offsets in a transaction, and when these take effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.groups.commits import COMMITTED_AT_ONCE
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.kit.groups.group_requests import (
    GROUP,
    Pair,
    add_offsets,
    commit,
    commit_in_txn,
    end,
    fetch_offset,
    init,
    join,
    pair,
)
from tests.kit.rig import Client, Rig, SyncedAtOnce, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC

E = ErrorCode
OK = ErrorCode.NONE
TXN = "payments"
LONG = "long"
OFFSETS = "__consumer_offsets"
VERSIONS = range(6)
TOO_LONG = "m" * 4_097
UNSTABLE = (E.UNSTABLE_OFFSET_COMMIT, -1)


def opened(rig: Rig, client: Client) -> Pair:
    """Return the owner of a transaction to which the group's offsets were added."""
    rig.topic(TOPIC, 2)
    owner = pair(init(client, TXN))
    assert add_offsets(client, TXN, owner) == OK
    return owner


def several(client: Client, owner: Pair, version: int, *places: tuple[str, int, str | None]) -> list[int]:
    topics = [
        TxnOffsetCommitRequestTopic(name, partitions=[TxnOffsetCommitRequestPartition(index, 5, -1, metadata)])
        for name, index, metadata in places
    ]
    answer = client.ask(TxnOffsetCommitRequest(TXN, GROUP, *owner, topics=topics), version)
    return [part.error_code for topic in answer.topics for part in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_wait_for_the_end_of_their_transaction(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        assert commit_in_txn(client, TXN, owner, 5, version=version) == OK
        assert (fetch_offset(client), fetch_offset(client, stable=True)) == ((OK, -1), UNSTABLE)

        assert end(client, TXN, owner, version=4).error_code == OK
        assert fetch_offset(client, stable=True) == (OK, 5)


@pytest.mark.parametrize("version", VERSIONS)
async def test_invalid_partitions_of_a_txn_offset_commit_do_not_fail_valid_ones(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        places = ((TOPIC, 0, None), ("none", 0, None), (TOPIC, 9, None), (TOPIC, -1, None), (TOPIC, 1, TOO_LONG))

        assert several(client, owner, version, *places) == [OK, unknown, unknown, unknown, E.OFFSET_METADATA_TOO_LARGE]
        assert end(client, TXN, owner, version=4).error_code == OK
        assert (fetch_offset(client), fetch_offset(client, index=1)) == ((OK, 5), (OK, -1))


def long_request(owner: Pair, count: int) -> bytes:
    """Return a request with offsets for `count` partitions of LONG, an unknown partition of it, and a partition of TOPIC."""
    topics = [
        TxnOffsetCommitRequestTopic(
            name, partitions=[TxnOffsetCommitRequestPartition(index, 5, -1, None) for index in range(partitions)]
        )
        for name, partitions in ((LONG, count + 1), (TOPIC, 1))
    ]
    return frame(TxnOffsetCommitRequest(TXN, GROUP, *owner, topics=topics), 3)


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_long_request_is_written_in_parts_and_others_have_their_turn(durability: str, data_dir: Path) -> None:
    count = 2 * COMMITTED_AT_ONCE + 5
    executor = SyncedAtOnce() if durability == "power" else None
    async with running_rig(data_dir, durability=durability, executor=executor) as rig:
        client, other = rig.client(), rig.client()
        owner = opened(rig, client)
        rig.topic(LONG, count)
        client.feed(long_request(owner, count))
        turns = 0
        while client.connection.is_busy:
            assert other.ask(ApiVersionsRequest(), 0).error_code == OK
            await turn(1)
            turns += 1
            assert turns < 1_000
        (answer,) = client.answers()
        response = decode(answer, 28, 3)
        codes = [(topic.name, [part.error_code for part in topic.partitions]) for topic in response.topics]
        assert codes == [(LONG, [OK] * count + [E.UNKNOWN_TOPIC_OR_PARTITION]), (TOPIC, [OK])]
        assert turns > 2
        assert end(client, TXN, owner, version=3).error_code == OK
        groups = rig.broker.groups
        assert len(groups.fetch_all(GROUP, True)[0].partitions) == count


async def test_the_remaining_offsets_of_a_long_request_are_refused_when_its_transaction_has_ended(
    data_dir: Path,
) -> None:
    """If they were written, they would open a transaction in the offsets topic that is never ended."""
    count = 2 * COMMITTED_AT_ONCE
    async with running_rig(data_dir) as rig:
        client, other = rig.client(), rig.client()
        owner = opened(rig, client)
        rig.topic(LONG, count)
        client.feed(long_request(owner, count))
        assert client.connection.is_busy
        assert end(other, TXN, owner, version=3).error_code == OK
        while client.connection.is_busy:
            await turn(1)
        (answer,) = client.answers()
        partitions = decode(answer, 28, 3).topics[0].partitions
        assert {part.error_code for part in partitions[:COMMITTED_AT_ONCE]} == {OK}
        assert {part.error_code for part in partitions[COMMITTED_AT_ONCE:count]} == {E.INVALID_TXN_STATE}
        assert not any(rig.broker.groups.pending_producers(GROUP, [(LONG, index)]) for index in range(count))


async def test_the_coordinator_is_not_asked_when_no_partition_is_known(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        opened(rig, client)

        assert several(client, (99, 9), 5, ("none", 0, None)) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        assert several(client, (99, 9), 5) == []


NOT_ADDED = [
    #  version  code
    (0, E.INVALID_TXN_STATE), (1, E.INVALID_TXN_STATE), (2, E.INVALID_TXN_STATE), (3, E.INVALID_TXN_STATE),
    (4, E.TRANSACTION_ABORTABLE), (5, OK),
]  # fmt: skip


@pytest.mark.parametrize(("version", "code"), NOT_ADDED)
async def test_version_5_adds_the_offsets_to_the_transaction_on_its_own(
    version: int, code: ErrorCode, data_dir: Path
) -> None:
    """KIP-890. Clients of older versions must send AddOffsetsToTxn first."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 2)
        client = rig.client()
        owner = pair(init(client, TXN))

        assert commit_in_txn(client, TXN, owner, 5, version=version) == code
        assert fetch_offset(client, stable=True) == (UNSTABLE if code == OK else (OK, -1))


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_the_owner_commits(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        first = opened(rig, client)
        assert commit_in_txn(client, TXN, first, 5, version=version) == OK
        owner = pair(init(client, TXN))
        assert add_offsets(client, TXN, owner) == OK

        assert commit_in_txn(client, TXN, first, 6, version=version) == E.INVALID_PRODUCER_EPOCH
        assert commit_in_txn(client, TXN, (owner[0], owner[1] + 1), 6, version=version) == E.INVALID_PRODUCER_EPOCH
        assert commit_in_txn(client, TXN, (owner[0] + 99, 0), 6, version=version) == E.INVALID_PRODUCER_ID_MAPPING
        assert commit_in_txn(client, "nobody", owner, 6, version=version) == E.INVALID_PRODUCER_ID_MAPPING
        assert commit_in_txn(client, TXN, owner, 6, version=version, group="") == E.INVALID_GROUP_ID
        assert fetch_offset(client, stable=True) == (OK, -1)


@pytest.mark.parametrize("verified", ["true", "false"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_previous_instance_cannot_commit_offsets_in_a_recovered_transaction(
    version: int, verified: str, data_dir: Path
) -> None:
    """KIP-939: a prepared transaction must not change any more, including its offsets."""
    async with running_rig(data_dir, {"transaction.partition.verification.enable": verified}) as rig:
        rig.topic(TOPIC, 2)
        zombie = rig.client()
        first = pair(init(zombie, TXN, two_phase=True, version=6))
        assert add_offsets(zombie, TXN, first) == OK
        assert commit_in_txn(zombie, TXN, first, 5, version=version) == OK
        client = rig.client()
        owner = pair(init(client, TXN, two_phase=True, version=6, keep=True))

        assert commit_in_txn(zombie, TXN, first, 9, version=version) == E.INVALID_PRODUCER_EPOCH
        assert commit_in_txn(client, TXN, owner, 9, version=version) == E.INVALID_TXN_STATE
        assert end(client, TXN, owner).error_code == OK
        assert fetch_offset(client, stable=True) == (OK, 5)


async def test_an_offset_is_a_record_of_the_producer_without_a_sequence_number(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        for offset in (5, 6):
            assert commit_in_txn(client, TXN, owner, offset) == OK
        log = rig.log(OFFSETS, rig.broker.groups.partition_of(GROUP))
        actual = [header for header, _ in log.batches()]

        assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in actual] == [(*owner, -1)] * 2
        assert all(each.transactional and not each.control for each in actual)


GENERATIONS = [
    #  generation  member  instance  code
    (-1,           "",     None,     OK),
    (0,            "",     None,     E.ILLEGAL_GENERATION),
    (5,            "m",    None,     E.ILLEGAL_GENERATION),
    (-1,           "m",    None,     OK),
    (-1,           "",     "i",      OK),
]  # fmt: skip


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(("generation", "member_id", "instance_id", "code"), GENERATIONS)
async def test_a_generation_of_a_group_that_does_not_exist_is_illegal(
    generation: int, member_id: str, instance_id: str | None, code: ErrorCode, version: int, data_dir: Path
) -> None:
    """A request without a generation creates a simple group, with any member id."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        more = {"generation": generation, "member_id": member_id, "instance_id": instance_id}

        assert commit_in_txn(client, TXN, owner, 5, version=version, **more) == code
        group = rig.broker.groups.group(GROUP)
        assert (group is not None and group.protocol_type is None) == (code == OK)


def another_joins(client: Client) -> None:
    """Send JoinGroup as another member: a rebalance begins, as the first member has not rejoined yet."""
    request = JoinGroupRequest(GROUP, 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    client.feed(frame(request, 3))
    assert client.answers() == []


@pytest.mark.parametrize("rebalancing", [False, True], ids=["stable", "rebalancing"])
@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_member_is_fenced_by_its_generation_and_not_held_up_by_a_rebalance(
    version: int, rebalancing: bool, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        me, generation = join(client)
        if rebalancing:
            another_joins(rig.client())

        def described(**more: Any) -> int:
            return commit_in_txn(client, TXN, owner, 5, version=version, **more)

        assert described(generation=generation, member_id=me) == OK
        assert described(generation=generation - 1, member_id=me) == E.ILLEGAL_GENERATION
        assert described(generation=generation + 1, member_id=me) == E.ILLEGAL_GENERATION
        assert described(member_id=me) == E.ILLEGAL_GENERATION
        assert described(generation=generation, member_id="z") == E.UNKNOWN_MEMBER_ID
        assert described(generation=generation) == E.UNKNOWN_MEMBER_ID
        assert described(generation=generation, member_id=me, instance_id="i") == E.UNKNOWN_MEMBER_ID
        assert described() == OK  # Old producers send no group metadata.


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_static_member_is_fenced_by_a_new_member_with_its_instance_id(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        before, generation = join(client, instance_id="i")
        after, generation = join(client, instance_id="i")
        assert after != before

        def described(member_id: str, instance_id: str | None) -> int:
            more = {"generation": generation, "member_id": member_id, "instance_id": instance_id}
            return commit_in_txn(client, TXN, owner, 5, version=version, **more)

        assert described(after, "i") == OK
        assert described(before, "i") == E.FENCED_INSTANCE_ID
        assert described(after, "j") == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_old_producer_commits_offsets_without_a_generation(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        join(client)

        assert commit_in_txn(client, TXN, owner, 5, version=version) == OK


def removed_by_offset_delete(rig: Rig, client: Client) -> None:
    topics = [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])]
    answer = client.ask(OffsetDeleteRequest(GROUP, topics), 0)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (OK, OK)


def removed_with_the_group(rig: Rig, client: Client) -> None:
    assert client.ask(DeleteGroupsRequest([GROUP]), 2).results[0].error_code == OK
    assert rig.broker.groups.group(GROUP) is None


def removed_with_the_topic(rig: Rig, client: Client) -> None:
    assert client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=10_000), 5).responses[0].error_code == OK
    rig.topic(TOPIC, 2)


@pytest.mark.parametrize("remove", [removed_by_offset_delete, removed_with_the_group, removed_with_the_topic])
@pytest.mark.parametrize("with_committed", [False, True], ids=["only pending", "committed too"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_offsets_removed_during_a_transaction_are_not_restored_by_its_commit(
    restarted: bool, with_committed: bool, remove: Any, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        if with_committed:
            assert commit(client, 3) == OK
        assert commit_in_txn(client, TXN, owner, 5) == OK
        remove(rig, client)
        assert fetch_offset(client, stable=True) == (OK, -1)
        if not restarted:
            assert end(client, TXN, owner).error_code == OK
            assert fetch_offset(client, stable=True) == (OK, -1)
    async with running_rig(data_dir) as rig:
        client = rig.client()
        if restarted:
            assert end(client, TXN, owner).error_code == OK
        assert fetch_offset(client, stable=True) == (OK, -1)


@pytest.mark.parametrize("commits", [True, False])
async def test_the_later_record_of_a_plain_and_a_transactional_commit_wins(commits: bool, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        assert commit_in_txn(client, TXN, owner, 5) == OK
        assert commit(client, 3) == OK
        assert (fetch_offset(client), fetch_offset(client, stable=True)) == ((OK, 3), UNSTABLE)
        assert commit_in_txn(client, TXN, owner, 6, index=1) == OK

        assert end(client, TXN, owner, commits).error_code == OK
        assert fetch_offset(client, stable=True) == (OK, 3)
        assert fetch_offset(client, index=1, stable=True) == (OK, 6 if commits else -1)


async def test_pending_offsets_outlive_a_restart_and_are_ended_after_it(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        assert commit(client, 3) == OK
        assert commit_in_txn(client, TXN, owner, 5) == OK
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert (fetch_offset(client), fetch_offset(client, stable=True)) == ((OK, 3), UNSTABLE)
        assert end(client, TXN, owner).error_code == OK
        assert fetch_offset(client, stable=True) == (OK, 5)


async def test_a_transaction_time_out_drops_pending_offsets(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        assert commit(client, 3) == OK
        assert commit_in_txn(client, TXN, owner, 5) == OK
        rig.pass_time(61_000)

        assert fetch_offset(client, stable=True) == (OK, 3)


async def test_an_admins_marker_drops_pending_offsets_and_an_unrelated_marker_is_only_written(
    data_dir: Path,
) -> None:
    """`kafka-transactions abort` sends WriteTxnMarkers directly to the partition leader."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = opened(rig, client)
        assert commit(client, 3) == OK
        assert commit_in_txn(client, TXN, owner, 5) == OK
        index = rig.broker.groups.partition_of(GROUP)
        log = rig.log(OFFSETS, index)
        written = log.next_offset

        def abort(producer_id: int) -> int:
            topics = [WritableTxnMarkerTopic(OFFSETS, [index])]
            answer = client.ask(WriteTxnMarkersRequest([WritableTxnMarker(producer_id, 0, False, topics, 0)]), 1)
            code: int = answer.markers[0].topics[0].partitions[0].error_code
            return code

        assert abort(owner[0] + 99) == OK
        assert fetch_offset(client, stable=True) == UNSTABLE
        assert log.next_offset == written + 1
        assert abort(owner[0]) == OK
        assert fetch_offset(client, stable=True) == (OK, 3)
