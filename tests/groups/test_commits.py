"""Which members may commit offsets, and how committed offsets are fetched and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from stuntbroker.groups.classic.offset_rules import commit_error
from stuntbroker.groups.classic.requests import Leaver
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.groups.commits import missing_group_error
from stuntbroker.groups.offset_records import OffsetRecord
from stuntbroker.groups.offset_requests import FetchedOffset, FetchedTopic, OffsetCommit
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.groups.group_states import group
from tests.kit.groups.group_world import DiskFull, World, protocols

S = GroupState
E = ErrorCode

DEAD_ERROR = E.COORDINATOR_NOT_AVAILABLE

COMMITS = [
    #  state                 member instance generation  plain                       transactional
    (S.EMPTY,                "",    None,    -1,         E.NONE,                     E.NONE),
    (S.EMPTY,                "l",   None,    -1,         E.NONE,                     E.NONE),
    (S.EMPTY,                "l",   None,    3,          E.UNKNOWN_MEMBER_ID,        E.UNKNOWN_MEMBER_ID),
    (S.PREPARING_REBALANCE,  "l",   None,    3,          E.NONE,                     E.NONE),
    (S.PREPARING_REBALANCE,  "l",   None,    2,          E.ILLEGAL_GENERATION,       E.ILLEGAL_GENERATION),
    (S.PREPARING_REBALANCE,  "",    None,    -1,         E.UNKNOWN_MEMBER_ID,        E.NONE),
    (S.COMPLETING_REBALANCE, "l",   None,    3,          E.REBALANCE_IN_PROGRESS,    E.NONE),
    (S.COMPLETING_REBALANCE, "l",   None,    2,          E.ILLEGAL_GENERATION,       E.ILLEGAL_GENERATION),
    (S.COMPLETING_REBALANCE, "",    None,    -1,         E.UNKNOWN_MEMBER_ID,        E.NONE),
    (S.STABLE,               "l",   None,    3,          E.NONE,                     E.NONE),
    (S.STABLE,               "l",   None,    -1,         E.ILLEGAL_GENERATION,       E.ILLEGAL_GENERATION),
    (S.STABLE,               "x",   None,    3,          E.UNKNOWN_MEMBER_ID,        E.UNKNOWN_MEMBER_ID),
    (S.STABLE,               "x",   None,    -1,         E.UNKNOWN_MEMBER_ID,        E.UNKNOWN_MEMBER_ID),
    (S.STABLE,               "",    None,    3,          E.UNKNOWN_MEMBER_ID,        E.UNKNOWN_MEMBER_ID),
    (S.STABLE,               "s",   "i",     3,          E.NONE,                     E.NONE),
    (S.STABLE,               "x",   "i",     3,          E.FENCED_INSTANCE_ID,       E.FENCED_INSTANCE_ID),
    (S.STABLE,               "",    "i",     -1,         E.FENCED_INSTANCE_ID,       E.FENCED_INSTANCE_ID),
    (S.STABLE,               "x",   "j",     3,          E.UNKNOWN_MEMBER_ID,        E.UNKNOWN_MEMBER_ID),
    (S.STABLE,               "",    None,    -1,         E.UNKNOWN_MEMBER_ID,        E.NONE),
    (S.DEAD,                 "",    None,    -1,         DEAD_ERROR,                 DEAD_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("state", "member_id", "instance_id", "generation", "plain", "transactional"), COMMITS)
def test_an_offset_commit_is_checked_against_state_member_and_generation(
    state: GroupState,
    member_id: str,
    instance_id: str | None,
    generation: int,
    plain: ErrorCode,
    transactional: ErrorCode,
) -> None:
    """KIP-447: transactional commits (last column) are fenced by generation, and succeed during a rebalance."""
    errors = [commit_error(group(state), member_id, instance_id, generation, txn) for txn in (False, True)]

    assert errors == [plain, transactional]


def test_offset_commit_is_decided_for_every_state() -> None:
    assert {state for state, *_ in COMMITS} == set(S)


@pytest.mark.parametrize(
    ("generation", "transactional", "version", "error"),
    [
        (-1, False, 8, E.NONE),
        (1, False, 8, E.ILLEGAL_GENERATION),
        (1, False, 9, E.GROUP_ID_NOT_FOUND),
        (-1, True, 3, E.NONE),
        (1, True, 5, E.ILLEGAL_GENERATION),
    ],
)
def test_a_commit_to_a_group_that_does_not_exist(
    generation: int, transactional: bool, version: int, error: ErrorCode
) -> None:
    assert missing_group_error(generation, transactional, version) is error


def test_a_commit_without_members_makes_a_simple_group(world: World) -> None:
    assert world.commit(5) is E.NONE
    assert world.offset() == FetchedOffset(0, 5, -1, "")
    assert (world.state, world.group().protocol_type) == (S.EMPTY, None)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_with_only_refused_offsets_creates_a_simple_group(world: World, transactional: bool) -> None:
    commits = [OffsetCommit("t", 0, 1, -1, "m" * 4_097)]
    if transactional:
        errors = world.groups.commit_transactional("g", 1, 0, "", None, -1, commits, 3)
    else:
        errors = world.groups.commit("g", "", None, -1, commits, version=8)

    assert errors == [E.OFFSET_METADATA_TOO_LARGE]
    assert world.state is S.EMPTY


def test_a_commit_without_a_transaction_needs_no_group_id(world: World) -> None:
    assert world.commit(5, group_id="") is E.NONE


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (None, E.NONE),
        ("", E.NONE),
        ("m" * 4_096, E.NONE),
        ("m" * 4_097, E.OFFSET_METADATA_TOO_LARGE),
        ("é" * 4_096, E.NONE),
        ("\U0001f600" * 2_048, E.NONE),
        ("\U0001f600" * 2_049, E.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_offset_metadata_is_measured_in_utf_16_code_units(world: World, metadata: str | None, error: ErrorCode) -> None:
    commits = [OffsetCommit("t", 0, 1, -1, metadata), OffsetCommit("t", 1, 2)]
    errors = world.groups.commit("g", "", None, -1, commits, version=8)

    assert errors == [error, E.NONE]
    assert world.offset(partition=1).offset == 2
    assert world.offset().offset == (1 if error is E.NONE else -1)


def test_a_committed_offset_is_fetched_with_its_leader_epoch_and_metadata(world: World) -> None:
    commits = [OffsetCommit("t", 0, 5, 7, "m"), OffsetCommit("t", 2, 6), OffsetCommit("u", 0, 8)]
    world.groups.commit("g", "", None, -1, commits, version=8)

    assert world.groups.fetch_all("g", False) == [
        FetchedTopic("t", ZERO_UUID, [FetchedOffset(0, 5, 7, "m"), FetchedOffset(2, 6)]),
        FetchedTopic("u", ZERO_UUID, [FetchedOffset(0, 8)]),
    ]
    assert world.groups.fetch("g", [("t", ZERO_UUID, [0, 1]), ("x", ZERO_UUID, [0])], False) == [
        FetchedTopic("t", ZERO_UUID, [FetchedOffset(0, 5, 7, "m"), FetchedOffset(1)]),
        FetchedTopic("x", ZERO_UUID, [FetchedOffset(0)]),
    ]
    assert world.groups.fetch_all("nobody", False) == []


def test_an_offset_of_a_recreated_topic_is_not_returned(world: World) -> None:
    old, new = b"\1" * 16, b"\2" * 16
    world.groups.commit("g", "", None, -1, [OffsetCommit("t", 0, 5, topic_id=old)], version=10)

    def fetched(topic_id: bytes) -> int:
        return world.groups.fetch("g", [("t", topic_id, [0])], False)[0].partitions[0].offset

    assert (fetched(old), fetched(new), fetched(ZERO_UUID)) == (5, -1, 5)


def test_an_offset_commit_that_cannot_be_stored_has_no_effect(world: World) -> None:
    world.log.is_full = True
    with pytest.raises(DiskFull):
        world.commit(5)

    assert world.offset().offset == -1
    assert world.groups.group("g") is None


def test_offsets_of_subscribed_topics_cannot_be_deleted(world: World) -> None:
    (first,) = world.stable()
    world.commit(5, first, 1)
    world.commit(6, first, 1, topic="u")
    answer = world.groups.delete_offsets("g", [("t", 0), ("u", 0), ("u", 1)])

    assert answer == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE, E.NONE])
    assert (world.offset().offset, world.offset(topic="u").offset) == (5, -1)


@pytest.mark.parametrize(
    ("enters", "error"),
    [
        (None, E.GROUP_ID_NOT_FOUND),
        ({"protocol_type": "connect"}, E.NON_EMPTY_GROUP),
        ({"protocol_type": "consumer"}, E.NONE),
    ],
)
def test_offset_delete_depends_on_the_protocol_type_of_the_group(
    world: World, enters: dict[str, Any] | None, error: ErrorCode
) -> None:
    if enters is not None:
        world.stable(**enters)

    assert world.groups.delete_offsets("g", [])[0] is error


def test_subscriptions_that_cannot_be_read_keep_all_offsets(world: World) -> None:
    (broken,) = protocols("range")
    (first,) = world.stable(protocols=(broken._replace(metadata=b"\0\0\0\0\0\7"),))
    world.commit(5, first, 1, topic="u")

    assert world.groups.delete_offsets("g", [("u", 0)]) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])


def test_only_a_group_without_members_can_be_deleted(world: World) -> None:
    assert world.groups.delete_group("g") is E.GROUP_ID_NOT_FOUND
    (first,) = world.stable()
    world.commit(5, first, 1)
    assert world.groups.delete_group("g") is E.NON_EMPTY_GROUP
    world.groups.leave_group("g", [Leaver(first, None)])

    assert world.groups.delete_group("g") is E.NONE
    assert world.groups.group("g") is None
    assert world.offset().offset == -1
    assert world.replayed().list_groups() == []


def test_deleting_a_topic_deletes_its_offsets_in_every_group(world: World) -> None:
    world.commit(5)
    world.commit(6, topic="u")
    world.commit(7, group_id="h", partition=3)
    world.commit_in_txn(1, 8, group_id="i")
    world.groups.topic_deleted("t")

    assert [world.offset().offset, world.offset(topic="u").offset] == [-1, 6]
    assert world.offset("h", partition=3).offset == -1
    assert world.offset("i", stable=True).error is E.NONE
    tombstones = [r for r in world.log.records() if isinstance(r, OffsetRecord) and r.offset is None]
    assert sorted((r.group_id, r.place) for r in tombstones) == [
        ("g", ("t", 0)),
        ("h", ("t", 3)),
        ("i", ("t", 0)),
    ]


def test_groups_are_listed_by_state_and_type(world: World) -> None:
    world.stable(group_id="s")
    world.commit(1, group_id="e")

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
        return [each.group_id for each in world.groups.list_groups(states, types)]

    assert listed() == ["s", "e"]
    assert listed(("stable",)) == ["s"]
    assert listed((" EMPTY ", "Dead")) == ["e"]
    assert listed(("Nonsense",)) == []
    assert listed((), ("Classic",)) == ["s", "e"]
    assert listed((), ("consumer", "nonsense")) == []
    assert listed(("Empty",), ("classic", "share")) == ["e"]


def test_a_claim_is_compared_with_the_generation_of_a_group_with_generations() -> None:
    """A group that has only offsets is in generation 0, which is not one: a client without a generation may claim it."""
    world = World()
    world.commit(5)
    simple = world.groups.claim("g", -1)
    world.stable()
    reached = world.group().generation

    assert simple == E.NONE
    assert [world.groups.claim("g", generation) for generation in (-1, reached - 1, reached)] == [
        E.ILLEGAL_GENERATION,
        E.ILLEGAL_GENERATION,
        E.NONE,
    ]
