"""Offsets committed in transactions (KIP-447), and their recovery from the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stuntbroker.groups.offset_requests import FetchedOffset, FetchedTopic, OffsetCommit
from stuntbroker.groups.offsets import OffsetStore
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.groups.group_world import World

E = ErrorCode


def test_a_pending_offset_is_not_seen_before_the_commit(world: World) -> None:
    world.commit(1)
    world.commit_in_txn(7, 2)

    assert world.offset() == FetchedOffset(0, 1)
    assert world.offset(stable=True) == FetchedOffset(0, -1, -1, "", E.UNSTABLE_OFFSET_COMMIT)
    assert world.offset(partition=1, stable=True) == FetchedOffset(1)

    world.end_txn(7, commit=True)
    assert world.offset(stable=True) == FetchedOffset(0, 2)


def test_a_stable_fetch_of_a_pending_offset_returns_only_unstable_offset_commit(world: World) -> None:
    """RequireStable, KIP-447: the response has neither the previous offset nor its leader epoch and metadata."""
    world.groups.commit(
        "g", "", None, -1, [OffsetCommit("t", 0, 5, 7, "m"), OffsetCommit("t", 1, 6, 8, "n")], version=8
    )
    world.commit_in_txn(7, 9)

    assert world.groups.fetch("g", [("t", ZERO_UUID, [0, 1, 2])], True)[0].partitions == [
        FetchedOffset(0, -1, -1, "", E.UNSTABLE_OFFSET_COMMIT), FetchedOffset(1, 6, 8, "n"), FetchedOffset(2),
    ]  # fmt: skip
    assert world.offset() == FetchedOffset(0, 5, 7, "m")


def test_leader_epoch_and_metadata_of_a_transactional_offset_are_fetched_after_its_commit(world: World) -> None:
    commits = [
        OffsetCommit("t", 0, 5, 7, "m"),
        OffsetCommit("t", 1, 6, -1, "m" * 4_097),
        OffsetCommit("t", 2, 8, -1, None),
    ]
    errors = world.groups.commit_transactional("g", 7, 0, "", None, -1, commits, version=3)
    assert errors == [E.NONE, E.OFFSET_METADATA_TOO_LARGE, E.NONE]
    assert world.offset(partition=1, stable=True) == FetchedOffset(1)
    world.end_txn(7, commit=True)

    assert world.groups.fetch_all("g", True) == [
        FetchedTopic("t", ZERO_UUID, [FetchedOffset(0, 5, 7, "m"), FetchedOffset(2, 8, -1, "")])
    ]


def test_a_marker_ends_the_transaction_for_all_groups_of_its_partition(world: World) -> None:
    """Pending offsets are stored by producer id, across all groups of the partition."""
    world.log.partition_count = 1
    world.commit_in_txn(7, 1, group_id="g")
    world.commit_in_txn(7, 2, group_id="h")
    world.commit_in_txn(8, 3, group_id="h", partition=1)
    world.end_txn(7, commit=True)

    assert world.offset("g", stable=True) == FetchedOffset(0, 1)
    assert world.offset("h", stable=True) == FetchedOffset(0, 2)
    assert world.offset("h", partition=1, stable=True).error is E.UNSTABLE_OFFSET_COMMIT


def test_the_producers_of_pending_offsets_are_known_by_group_and_partition(world: World) -> None:
    world.commit(1, partition=3)
    world.commit_in_txn(7, 1)
    world.commit_in_txn(8, 1)
    world.commit_in_txn(8, 2, partition=1)
    world.commit_in_txn(9, 2, group_id="h")

    def producers(*partitions: int, group_id: str = "g") -> set[int]:
        return world.groups.pending_producers(group_id, [("t", number) for number in partitions])

    assert (producers(0), producers(1), producers(0, 1), producers(2, 3), producers()) == (
        {7, 8},
        {8},
        {7, 8},
        set(),
        set(),
    )
    assert (producers(0, group_id="h"), producers(0, group_id="nobody")) == ({9}, set())
    world.end_txn(8, commit=False)
    assert producers(0, 1) == {7}


def test_a_refused_commit_in_a_transaction_leaves_nothing_pending(world: World) -> None:
    (member_id,) = world.stable()
    commits = [OffsetCommit("t", 0, 5)]
    before = len(world.log.records())
    errors = world.groups.commit_transactional("g", 7, 0, member_id, None, 0, commits, version=3)

    assert errors == [E.ILLEGAL_GENERATION]
    assert world.offset(stable=True) == FetchedOffset(0)
    assert len(world.log.records()) == before


def test_an_aborted_offset_is_never_seen(world: World) -> None:
    world.commit(1)
    world.commit_in_txn(7, 2)
    world.end_txn(7, commit=False)

    assert world.offset(stable=True) == FetchedOffset(0, 1)


def test_the_last_offset_commit_of_a_transaction_wins(world: World) -> None:
    world.commit_in_txn(7, 3)
    world.commit_in_txn(7, 2)
    world.end_txn(7, commit=True)

    assert world.offset().offset == 2


def test_an_offset_is_unstable_until_the_last_of_its_transactions_has_ended(world: World) -> None:
    world.commit_in_txn(7, 1)
    world.commit_in_txn(8, 2)
    world.end_txn(7, commit=True)
    assert world.offset(stable=True).error is E.UNSTABLE_OFFSET_COMMIT
    assert world.offset().offset == 1

    world.end_txn(8, commit=False)
    assert world.offset(stable=True) == FetchedOffset(0, 1)


@pytest.mark.parametrize(
    ("first_ends", "second_ends", "expected"),
    [(7, 8, 2), (8, 7, 2)],
)
def test_of_two_transactions_the_later_record_counts_in_whatever_order_they_end(
    world: World, first_ends: int, second_ends: int, expected: int
) -> None:
    world.commit_in_txn(7, 1)
    world.commit_in_txn(8, 2)
    world.end_txn(first_ends, commit=True)
    world.end_txn(second_ends, commit=True)

    assert world.offset().offset == expected


def test_a_plain_commit_after_a_pending_offset_applies_immediately_and_remains(world: World) -> None:
    world.commit_in_txn(7, 1)
    world.commit(9)
    assert world.offset().offset == 9
    assert world.offset(stable=True).error is E.UNSTABLE_OFFSET_COMMIT

    world.end_txn(7, commit=True)
    assert world.offset(stable=True).offset == 9


def removed_by_offset_delete(world: World) -> None:
    world.groups.delete_offsets("g", [("t", 0)])


def removed_with_the_group(world: World) -> None:
    world.groups.delete_group("g")


def removed_with_the_topic(world: World) -> None:
    world.groups.topic_deleted("t")


@pytest.mark.parametrize("remove", [removed_by_offset_delete, removed_with_the_group, removed_with_the_topic])
def test_a_tombstone_removes_committed_and_pending_offsets(world: World, remove: Callable[[World], None]) -> None:
    world.commit(1)
    world.commit_in_txn(7, 2)
    remove(world)
    assert world.offset(stable=True) == FetchedOffset(0)

    world.end_txn(7, commit=True)
    assert world.offset(stable=True) == FetchedOffset(0)


def test_a_marker_without_pending_offsets_changes_no_offset(world: World) -> None:
    world.commit(1)
    world.end_txn(7, commit=True)

    assert world.offset(stable=True) == FetchedOffset(0, 1)


def test_offset_fetch_of_all_topics_omits_partitions_with_only_pending_offsets(world: World) -> None:
    world.commit(1)
    world.commit_in_txn(7, 2)
    world.commit_in_txn(7, 3, partition=1)
    (topic,) = world.groups.fetch_all("g", True)

    assert topic.partitions == [FetchedOffset(0, error=E.UNSTABLE_OFFSET_COMMIT)]


def test_a_marker_ends_the_transaction_in_its_own_partition_only(world: World) -> None:
    other = next(f"h{n}" for n in range(99) if world.groups.partition_of(f"h{n}") != world.groups.partition_of("g"))
    world.commit_in_txn(7, 1)
    world.commit_in_txn(7, 2, group_id=other)
    world.end_txn(7, commit=True)

    assert world.offset(stable=True).offset == 1
    assert world.offset(other, stable=True).error is E.UNSTABLE_OFFSET_COMMIT


def test_pending_offsets_survive_a_restart(world: World) -> None:
    world.commit(1)
    world.commit_in_txn(7, 2)
    world.commit_in_txn(8, 3, partition=1)
    world.end_txn(8, commit=True)
    world.restart()
    assert world.offset(stable=True).error is E.UNSTABLE_OFFSET_COMMIT
    assert world.offset(partition=1, stable=True).offset == 3

    world.end_txn(7, commit=True)
    assert world.offset(stable=True).offset == 2


def test_a_replay_of_a_compacted_log_gives_the_same_offsets() -> None:
    """Compaction removes a superseded pending record. The offsets stay the same: the position in the log decides."""
    world = World()
    world.commit_in_txn(7, 1)
    world.commit(9)
    world.end_txn(7, commit=True)
    (batches,) = world.log.batches.values()
    del batches[0]

    assert world.replayed().fetch_all("g", True) == world.groups.fetch_all("g", True)


def stores(world: World) -> dict[int, OffsetStore]:
    """The non-empty offset stores by partition."""
    ledger = world.groups.ledger
    return {n: ledger.store(n) for n in range(world.log.partition_count) if ledger.store(n) != OffsetStore()}


GROUPS = st.sampled_from(["g", "h", "i"])
PARTITIONS = st.integers(0, 1)
TOPICS = st.sampled_from(["t", "u"])
PRODUCERS = st.integers(1, 3)
OFFSETS = st.integers(0, 99)


class ReplayIsLife(RuleBasedStateMachine):
    """After any sequence of operations, a replay of the log gives the same offsets as the running broker has."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.world.log.partition_count = 2

    @rule(group_id=GROUPS, topic=TOPICS, partition=PARTITIONS, offset=OFFSETS)
    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self.world.commit(offset, group_id=group_id, topic=topic, partition=partition)

    @rule(producer_id=PRODUCERS, group_id=GROUPS, topic=TOPICS, partition=PARTITIONS, offset=OFFSETS)
    def commit_in_txn(self, producer_id: int, group_id: str, topic: str, partition: int, offset: int) -> None:
        self.world.commit_in_txn(producer_id, offset, group_id=group_id, topic=topic, partition=partition)

    @rule(producer_id=PRODUCERS, group_id=GROUPS, commit=st.booleans())
    def end_txn(self, producer_id: int, group_id: str, commit: bool) -> None:
        self.world.end_txn(producer_id, commit, group_id)

    @rule(group_id=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        self.world.groups.delete_offsets(group_id, [(topic, partition)])

    @rule(group_id=GROUPS)
    def delete_group(self, group_id: str) -> None:
        self.world.groups.delete_group(group_id)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        self.world.groups.topic_deleted(topic)

    @rule(days=st.integers(1, 8))
    def wait(self, days: int) -> None:
        self.world.time.now += days * 24 * 3_600_000
        self.world.groups.expire()

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def a_replay_gives_what_is_known(self) -> None:
        if not hasattr(self, "world"):
            return
        live = stores(self.world)
        known = {group.group_id for group in self.world.groups.list_groups()}
        running, self.world.groups = self.world.groups, self.world.replayed()
        try:
            assert stores(self.world) == live
            assert {group.group_id for group in self.world.groups.list_groups()} <= known
        finally:
            self.world.groups = running


TestReplayIsLife = ReplayIsLife.TestCase
TestReplayIsLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
