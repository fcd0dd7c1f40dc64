"""Profile `kip-447-draft`: InitProducerId claims partitions for a group generation, and fences other producers on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.coordinator.actor import MAILBOX_LENGTH_MAX
from stuntbroker.coordinator.state import Phase
from stuntbroker.groups.claims import GENERATION_NONE, REMEMBERED_MAX, Generations
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import AssignedTopic, InitProducerIdRequest
from stuntbroker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE
from tests.kit.disk_rig import Disk, owner_of
from tests.kit.groups.group_requests import (
    GROUP,
    Pair,
    add_offsets,
    commit,
    commit_in_txn,
    end,
    epoch_of,
    fetch_offset,
    init,
    join,
    pair,
    write,
)
from tests.kit.rig import Rig, decode, frame, running_rig
from tests.kit.transactions.two_phase import committed
from tests.kit.valid_requests import TOPIC

E = ErrorCode
OK = ErrorCode.NONE
SOURCE = "source"
PROFILE = {"stuntbroker.profile": "kip-447-draft"}
CLAIMED = [(SOURCE, 0), (SOURCE, 1)]


@asynccontextmanager
async def drafted(data_dir: Path, **more: str) -> AsyncIterator[Rig]:
    async with running_rig(data_dir, {**PROFILE, **more}) as rig:
        rig.topic(TOPIC)
        rig.topic(SOURCE, 4)
        yield rig


def working(rig: Rig, name: str, index: int = 0, value: str = "", **more: Any) -> Pair:
    """Return a producer with an open transaction, which has a record and an offset of the group for a partition of SOURCE."""
    client = rig.client()
    owner = pair(init(client, name))
    assert write(client, name, owner, value or name) == OK
    assert commit_in_txn(client, name, owner, 7, topic=SOURCE, index=index, **more) == OK
    return owner


@pytest.mark.parametrize("version", range(2, 7))
async def test_open_transactions_on_the_claimed_partitions_are_aborted_and_their_producers_fenced(
    version: int, data_dir: Path
) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        assert commit(client, 3, topic=SOURCE) == OK
        zombie = working(created, "zombie")

        answer = init(client, "successor", version=version, group=GROUP, generation=2, assigned=CLAIMED)

        # Before the response, the pending offset was dropped, the record aborted, and the zombie fenced.
        assert pair(answer)[1] == 0
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, 3)
        assert created.log(TOPIC, 0).last_stable_offset == created.log(TOPIC, 0).next_offset
        assert committed(client) == []
        assert end(client, "zombie", zombie).error_code == E.PRODUCER_FENCED
        assert write(client, "zombie", zombie, "late", 1) == E.INVALID_PRODUCER_EPOCH
        assert commit_in_txn(client, "zombie", zombie, 9, topic=SOURCE) == E.INVALID_PRODUCER_EPOCH
        # Unlike a producer that timed out, the zombie cannot recover.
        assert init(client, "zombie", owner=zombie).error_code == E.PRODUCER_FENCED
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, 3)
        assert committed(client) == []


async def test_the_successor_continues_where_the_zombie_left_off(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        zombie = working(created, "zombie", value="twice?")
        owner = pair(init(client, "successor", group=GROUP, generation=1, assigned=CLAIMED))

        assert write(client, "successor", owner, "once") == OK
        assert commit_in_txn(client, "successor", owner, 8, topic=SOURCE) == OK
        assert end(client, "successor", owner).error_code == OK
        assert end(client, "zombie", zombie).error_code == E.PRODUCER_FENCED
        causes = [facts["cause"] for name, facts in created.events.kept if name == "producer_fenced"]
        assert causes == ["group_generation"]
        assert committed(client) == ["once"]
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, 8)


async def test_a_claim_aborts_every_transaction_on_its_partitions_and_no_other(data_dir: Path) -> None:
    """It does not abort transactions on other partitions, of other groups, without an offset, or already committed."""
    async with drafted(data_dir) as created:
        hit = {name: working(created, name, index) for name, index in (("a", 0), ("b", 0), ("c", 1))}
        spared = {
            "elsewhere": working(created, "elsewhere", 2),
            "stranger": working(created, "stranger", 0, group="other"),
        }
        client = created.client()
        spared["no offset"] = pair(init(client, "no offset"))
        assert write(client, "no offset", spared["no offset"], "x") == OK
        spared["only announced"] = pair(init(client, "only announced"))
        assert add_offsets(client, "only announced", spared["only announced"]) == OK
        done = working(created, "done", 1)
        after = pair(end(client, "done", done))

        assert init(client, "successor", group=GROUP, generation=1, assigned=CLAIMED).error_code == OK

        assert {name: end(client, name, owner).error_code for name, owner in hit.items()} == dict.fromkeys(
            hit, E.PRODUCER_FENCED
        )
        assert {name: end(client, name, owner).error_code for name, owner in spared.items()} == dict.fromkeys(
            spared, OK
        )
        assert write(client, "done", after, "more") == OK
        names = [facts["transactional_id"] for name, facts in created.events.kept if name == "producer_fenced_by_group"]
        assert sorted(names) == ["a", "b", "c"]


async def test_one_transaction_on_several_partitions_is_fenced_once(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        zombie = working(created, "zombie", 0)
        client = created.client()
        assert commit_in_txn(client, "zombie", zombie, 5, topic=SOURCE, index=1) == OK

        assert init(client, "successor", group=GROUP, generation=1, assigned=CLAIMED).error_code == OK
        assert epoch_of(created, "zombie") == 2  # By the abort, and as for a new instance.


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
async def test_a_claim_fences_in_the_same_way_under_every_transaction_version(
    transaction_version: int, data_dir: Path
) -> None:
    async with drafted(data_dir, **{"transaction.version": str(transaction_version)}) as created:
        client = created.client()
        owner = pair(init(client, "zombie"))
        assert add_offsets(client, "zombie", owner) == OK
        assert commit_in_txn(client, "zombie", owner, 7, topic=SOURCE, version=3) == OK

        assert init(client, "successor", group=GROUP, generation=1, assigned=CLAIMED).error_code == OK
        assert (epoch_of(created, "zombie"), created.actor("zombie").txn.phase) == (2, Phase.EMPTY)
        assert end(client, "zombie", owner, version=3).error_code == E.PRODUCER_FENCED
        assert init(client, "zombie", owner=owner).error_code == E.PRODUCER_FENCED


async def test_without_a_transactional_id_a_fresh_producer_id_is_given(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        zombie = working(created, "zombie")
        client = created.client()
        answer = init(client, None, group=GROUP, generation=1, assigned=CLAIMED)

        assert pair(answer) == (zombie[0] + 1, 0)
        assert end(client, "zombie", zombie).error_code == E.PRODUCER_FENCED
        assert init(client, None, group=GROUP, generation=0, assigned=CLAIMED).error_code == E.ILLEGAL_GENERATION


async def test_a_claim_aborts_the_callers_own_transaction_without_fencing_the_caller(data_dir: Path) -> None:
    """The caller sends its own producer id and epoch, so its claim does not fence it."""
    async with drafted(data_dir) as created:
        owner = working(created, "worker")
        client = created.client()
        answer = init(client, "worker", owner=owner, group=GROUP, generation=1, assigned=CLAIMED)

        assert pair(answer) == (owner[0], 1)
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, -1)


async def test_a_claim_with_keep_prepared_txn_recovers_the_callers_own_transaction(data_dir: Path) -> None:
    """With KeepPreparedTxn (KIP-939), a claim recovers the caller's own transaction instead of aborting it."""
    async with drafted(data_dir) as created:
        client = created.client()
        owner = pair(init(client, "two", two_phase=True, version=6))
        assert commit_in_txn(client, "two", owner, 7, topic=SOURCE) == OK
        other = working(created, "other")

        answer = init(client, "two", two_phase=True, version=6, keep=True, group=GROUP, generation=1, assigned=CLAIMED)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == owner
        assert end(client, "other", other).error_code == E.PRODUCER_FENCED
        assert end(client, "two", pair(answer)).error_code == OK
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, 7)


async def test_a_refused_claim_fences_no_producer(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        owner = working(created, "worker")
        client = created.client()
        old = pair(init(client, "late"))
        pair(init(client, "late"))
        claim = {"group": GROUP, "generation": 1, "assigned": CLAIMED}

        assert init(client, "late", owner=old, **claim).error_code == E.PRODUCER_FENCED
        assert init(client, "", **claim).error_code == E.INVALID_REQUEST
        assert init(client, "late", owner=(old[0], -1), **claim).error_code == E.INVALID_REQUEST
        assert end(client, "worker", owner).error_code == OK


async def test_an_older_generation_is_refused_and_changes_nothing(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()

        def claimed(generation: int, group: str = GROUP) -> int:
            code: int = init(client, "x", group=group, generation=generation, assigned=CLAIMED).error_code
            return code

        assert claimed(5) == OK  # The group was unknown.
        owner = working(created, "worker")
        before = epoch_of(created, "x")
        answer = init(client, "x", group=GROUP, generation=4, assigned=CLAIMED)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (E.ILLEGAL_GENERATION, -1, -1)
        assert claimed(-1) == E.ILLEGAL_GENERATION  # No generation given.
        assert epoch_of(created, "x") == before
        assert end(client, "worker", owner).error_code == OK
        assert claimed(5) == OK  # Another member, or its next producer.
        assert claimed(6) == OK
        assert claimed(5) == E.ILLEGAL_GENERATION
        assert claimed(0, "other") == OK


async def test_a_zombie_of_an_older_generation_fences_no_producer(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        assert init(client, "worker", group=GROUP, generation=2, assigned=CLAIMED).error_code == OK
        owner = working(created, "worker")

        assert init(client, "zombie", group=GROUP, generation=1, assigned=CLAIMED).error_code == E.ILLEGAL_GENERATION
        assert end(client, "worker", owner).error_code == OK
        assert committed(client) == ["worker"]


async def test_a_claim_is_checked_against_the_generation_of_the_group_itself(data_dir: Path) -> None:
    """The group itself provides the generation after a rebalance, and its records do so after a restart."""
    async with drafted(data_dir) as created:
        client = created.client()
        member_id, first = join(client)
        assert init(client, "x", group=GROUP, generation=first, assigned=CLAIMED).error_code == OK
        second = join(client, member_id=member_id)[1]
        assert second == first + 1

        assert init(client, "x", group=GROUP, generation=first, assigned=CLAIMED).error_code == E.ILLEGAL_GENERATION
        owner = working(created, "worker", generation=second, member_id=member_id)
        assert init(client, "x", group=GROUP, generation=second, assigned=CLAIMED).error_code == OK
        assert end(client, "worker", owner).error_code == E.PRODUCER_FENCED
    async with drafted(data_dir) as created:
        client = created.client()
        assert init(client, "x", group=GROUP, generation=first, assigned=CLAIMED).error_code == E.ILLEGAL_GENERATION
        assert init(client, "x", group=GROUP, generation=second, assigned=CLAIMED).error_code == OK
        client.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(member_id)]), 5)
        assert init(client, "x", group=GROUP, generation=second, assigned=CLAIMED).error_code == E.ILLEGAL_GENERATION


async def test_a_claim_for_a_deleted_group_may_have_a_lower_generation(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        assert commit(client, 1, topic=SOURCE) == OK
        assert init(client, "x", group=GROUP, generation=9).error_code == OK
        assert init(client, "x", group=GROUP, generation=1).error_code == E.ILLEGAL_GENERATION
        assert created.broker.groups.delete_group(GROUP) == OK

        assert init(client, "x", group=GROUP, generation=1).error_code == OK


@pytest.mark.parametrize(
    "claim",
    [{"generation": 1}, {"assigned": CLAIMED}, {"generation": 1, "assigned": CLAIMED}],
    ids=["generation", "partitions", "both"],
)
async def test_a_claim_without_its_group_is_an_invalid_request(claim: dict[str, Any], data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()

        assert init(client, "x", **claim).error_code == E.INVALID_REQUEST
        assert init(client, None, **claim).error_code == E.INVALID_REQUEST
        assert created.actor("x") is None


async def test_unknown_partitions_in_a_claim_fence_no_producer(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        owner = working(created, "worker")
        client = created.client()
        claim = [("none", 0), (SOURCE, 99), (SOURCE, -1)]

        assert init(client, "x", group=GROUP, generation=1, assigned=claim).error_code == OK
        assert init(client, "x", group=GROUP, generation=1).error_code == OK  # No partitions.
        assert end(client, "worker", owner).error_code == OK


async def test_a_request_without_a_claim_is_as_in_kafka(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        owner = working(created, "worker")
        client = created.client()
        for version in range(6):
            assert init(client, "x", version=version).error_code == OK
        assert init(client, None).error_code == OK

        assert end(client, "worker", owner).error_code == OK


async def test_a_claim_is_refused_while_a_two_phase_transaction_is_open(data_dir: Path) -> None:
    """The outcome of a two-phase transaction is decided elsewhere, perhaps already (KIP-939), so only its owner may end it."""
    async with drafted(data_dir) as created:
        client = created.client()
        owner = pair(init(client, "two", two_phase=True, version=6))
        assert commit_in_txn(client, "two", owner, 7, topic=SOURCE) == OK
        assert created.actor("two").txn.timeout_ms == TIMEOUT_NONE
        other = working(created, "other")
        claim = {"group": GROUP, "generation": 1, "assigned": CLAIMED}

        assert init(client, "x", **claim).error_code == E.CONCURRENT_TRANSACTIONS
        assert created.actor("x") is None
        assert end(client, "other", other).error_code == OK
        assert end(client, "two", owner).error_code == OK
        assert init(client, "x", **claim).error_code == OK
        assert fetch_offset(client, topic=SOURCE, stable=True) == (OK, 7)


async def test_a_claim_is_answered_when_every_fence_is_synced(data_dir: Path) -> None:
    """With `--durability power`, all fences are synced before the caller gets its response."""
    disk = Disk()
    async with running_rig(data_dir, PROFILE, "power", disk) as rig:
        rig.topic(SOURCE, 4)
        names = ("a", "b", "c")
        for name in names:
            client = rig.client()
            owner = owner_of(client, disk, name)
            part = TxnOffsetCommitRequestPartition(0, 7)
            topics = [TxnOffsetCommitRequestTopic(SOURCE, partitions=[part])]
            client.feed(frame(TxnOffsetCommitRequest(name, GROUP, *owner, topics=topics), 5))
            disk.drain()
            assert len(client.answers()) == 1
        caller = rig.client()
        caller.feed(
            frame(InitProducerIdRequest(None, 60_000, -1, -1, False, False, GROUP, 1, [AssignedTopic(SOURCE, [0])]), 5)
        )
        syncs = disk.syncs
        while not (actual := caller.answers()):
            disk.sync()
        assert disk.syncs > syncs
        assert decode(actual[0], 22, 5).error_code == OK
        assert [(rig.actor(name).txn.phase, rig.actor(name).busy) for name in names] == [(Phase.EMPTY, False)] * 3
        disk.drain()


@pytest.mark.parametrize("slow", ["a", "b", "c"])
async def test_a_claim_waits_for_a_busy_transactional_id(slow: str, data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        for name in ("a", "b", "c"):
            working(created, name)
        actor, client = created.actor(slow), created.client()
        actor.busy = True
        client.feed(
            frame(InitProducerIdRequest(None, 60_000, -1, -1, False, False, GROUP, 1, [AssignedTopic(SOURCE, [0])]), 5)
        )
        assert client.answers() == []

        actor.drain_mailbox(created.broker.transactions)
        (answer,) = client.answers()
        assert decode(answer, 22, 5).error_code == OK
        assert {epoch_of(created, name) for name in ("a", "b", "c")} == {2}


async def test_a_claim_gets_concurrent_transactions_when_a_mailbox_is_full(data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        owner = working(created, "worker")
        actor = created.actor("worker")
        actor.mailbox, actor.busy = [(None, None)] * MAILBOX_LENGTH_MAX, True
        client = created.client()
        claim = {"group": GROUP, "generation": 1, "assigned": CLAIMED}
        refused = init(client, "x", **claim)
        assert (refused.error_code, refused.producer_id) == (E.CONCURRENT_TRANSACTIONS, -1)

        actor.mailbox, actor.busy = None, False
        assert init(client, "x", **claim).error_code == OK
        assert end(client, "worker", owner).error_code == E.PRODUCER_FENCED


@pytest.mark.parametrize("profile", ["kafka", "kip-588"])
async def test_other_profiles_ignore_a_claim_as_an_unknown_tagged_field(profile: str, data_dir: Path) -> None:
    async with running_rig(data_dir, {"stuntbroker.profile": profile}) as rig:
        rig.topic(TOPIC)
        rig.topic(SOURCE, 4)
        client = rig.client()
        assert commit(client, 3, topic=SOURCE) == OK
        owner = working(rig, "worker")
        for generation in (5, 4):
            assert init(client, "x", group=GROUP, generation=generation, assigned=CLAIMED).error_code == OK
            assert init(client, None, group=GROUP, generation=generation, assigned=CLAIMED).error_code == OK
        assert init(client, "x", generation=1).error_code == OK

        for version in range(1, 10):
            assert fetch_offset(client, version, topic=SOURCE) == (OK, 3)
        assert fetch_offset(client, 7, topic=SOURCE, stable=True) == (E.UNSTABLE_OFFSET_COMMIT, -1)
        assert end(client, "worker", owner).error_code == OK


@pytest.mark.parametrize("version", range(1, 7))
async def test_an_old_consumer_gets_a_retriable_error_until_the_transaction_has_ended(
    version: int, data_dir: Path
) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        assert commit(client, 3, topic=SOURCE) == OK
        assert commit(client, 4, topic=SOURCE, index=1) == OK
        owner = working(created, "worker")
        wanted = [OffsetFetchRequestTopic(SOURCE, [0, 1, 2])]
        answer = client.ask(OffsetFetchRequest(GROUP, wanted), version)
        (topic,) = answer.topics
        busy = E.COORDINATOR_LOAD_IN_PROGRESS
        assert [(each.error_code, each.committed_offset) for each in topic.partitions] == [
            (busy, -1),
            (OK, 4),
            (OK, -1),
        ]
        assert (topic.partitions[0].committed_leader_epoch, topic.partitions[0].metadata) == (-1, "")
        # From version 2 on, clients read this code from the top level of the response.
        assert answer.error_code == (busy if version >= 2 else OK)
        if version >= 2:
            (topic,) = client.ask(OffsetFetchRequest(GROUP, None), version).topics
            assert sorted((each.partition_index, each.error_code) for each in topic.partitions) == [(0, busy), (1, OK)]
        assert fetch_offset(client, version, topic=SOURCE, index=1) == (OK, 4)
        assert fetch_offset(client, version, topic=SOURCE, group="other") == (OK, -1)

        assert end(client, "worker", owner).error_code == OK
        assert fetch_offset(client, version, topic=SOURCE) == (OK, 7)
        assert client.ask(OffsetFetchRequest(GROUP, wanted), version).error_code == OK


@pytest.mark.parametrize("version", range(7, 10))
async def test_a_consumer_that_knows_require_stable_is_answered_as_in_kafka(version: int, data_dir: Path) -> None:
    async with drafted(data_dir) as created:
        client = created.client()
        assert commit(client, 3, topic=SOURCE) == OK
        working(created, "worker")

        assert fetch_offset(client, version, topic=SOURCE, stable=True) == (E.UNSTABLE_OFFSET_COMMIT, -1)
        assert fetch_offset(client, version, topic=SOURCE) == (OK, 3)


def test_the_number_of_groups_remembered_by_their_claims_is_limited() -> None:
    """The group whose generation has not changed for the longest time is forgotten first."""
    known = Generations()
    for number in range(REMEMBERED_MAX):
        assert known.claim(f"g{number}", GENERATION_NONE, 5) == OK
    assert known.claim("g0", GENERATION_NONE, 6) == OK
    assert known.claim("g5", GENERATION_NONE, 6) == OK
    assert known.newest("g1", GENERATION_NONE) == 5
    assert known.claim("one more", GENERATION_NONE, 5) == OK

    assert (known.newest("g0", GENERATION_NONE), known.newest("g5", GENERATION_NONE)) == (6, 6)
    assert known.newest("g1", GENERATION_NONE) == -1
    assert known.newest("g2", 3) == 5
    assert known.newest("g2", 7) == 7
