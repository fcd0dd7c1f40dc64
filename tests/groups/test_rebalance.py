"""Rebalances: members join, leave, time out and restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stuntbroker.groups.classic.requests import JoinedMember, JoinReply, Leaver, SyncReply
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.groups.records import GroupRecord
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.groups.group_world import REBALANCE_MS, SESSION_MS, DiskFull, World, protocols

S = GroupState
E = ErrorCode


def test_the_first_member_becomes_leader_and_gets_its_own_assignment(world: World) -> None:
    (request,) = world.join()
    assert request == JoinReply(E.MEMBER_ID_REQUIRED, "c-1")
    assert world.state is S.EMPTY

    (joined,) = world.join("c-1")
    (range_,) = protocols("range")
    assert joined == JoinReply(
        E.NONE, "c-1", 1, "consumer", "range", "c-1", False, (JoinedMember("c-1", None, range_.metadata),)
    )
    assert world.state is S.COMPLETING_REBALANCE

    (synced,) = world.sync("c-1", 1, assignments=(("c-1", b"all"),))
    assert synced == SyncReply(E.NONE, "consumer", "range", b"all")
    assert world.state is S.STABLE


def test_a_new_member_below_version_4_joins_without_a_member_id(world: World) -> None:
    (joined,) = world.join(requires_member_id=False)

    assert (joined.error, joined.member_id) == (E.NONE, "c-1")


def test_a_second_member_makes_the_first_member_rejoin(world: World) -> None:
    (first,) = world.stable()
    second, second_joined = world.enter()

    assert second_joined == []
    assert world.state is S.PREPARING_REBALANCE
    assert world.heartbeat(first, 1) is E.REBALANCE_IN_PROGRESS
    assert world.sync(first, 1) == [SyncReply(E.REBALANCE_IN_PROGRESS)]

    (first_again,) = world.join(first)
    assert first_again.generation == second_joined[0].generation == 2
    assert [each.member_id for each in first_again.members] == [first, second]
    assert second_joined[0].members == ()
    assert second_joined[0].leader_id == first

    second_synced = world.sync(second, 2)
    assert second_synced == []
    assert world.sync(first, 2, assignments=((first, b"1"), (second, b"2")))[0].assignment == b"1"
    assert second_synced[0].assignment == b"2"


def test_a_member_that_the_leader_omits_gets_an_empty_assignment(world: World) -> None:
    (first,) = world.stable()
    second, _ = world.enter()
    world.join(first)
    world.sync(first, 2, assignments=((first, b"1"),))

    assert world.sync(second, 2) == [SyncReply(E.NONE, "consumer", "range", b"")]


def test_the_most_voted_protocol_that_all_members_support_is_selected(world: World) -> None:
    first, _ = world.enter(protocols=protocols("a", "b", "c"))
    world.settle()
    world.enter(protocols=protocols("b", "c"))
    _, joined = world.enter(protocols=protocols("c", "b"))
    world.join(first, protocols=protocols("a", "b", "c"))

    assert joined[0].protocol_name == "b"


def test_a_member_that_does_not_rejoin_is_removed_after_the_rebalance_time_out(world: World) -> None:
    (first,) = world.stable(rebalance_timeout_ms=5_000)
    second, joined = world.enter(rebalance_timeout_ms=8_000)
    world.time.pass_ms(7_999)
    world.heartbeat(first, 1)
    assert joined == []
    world.time.pass_ms(1)

    assert joined[0].leader_id == second
    assert list(world.group().members) == [second]
    assert world.heartbeat(first, 1) is E.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_time_out(world: World) -> None:
    first, second = world.stable(2)
    world.join(second, protocols=protocols("range", topics=("u",)))
    world.join(first)
    world.sync(first, 3, assignments=((first, b"1"), (second, b"2")))
    assert world.state is S.STABLE
    for _ in range(REBALANCE_MS // 5_000):
        world.time.pass_ms(5_000)
        world.heartbeat(first, 3)
        world.heartbeat(second, 3)

    assert list(world.group().members) == [first]
    assert world.state is S.PREPARING_REBALANCE


def test_a_member_without_heartbeats_is_removed_after_its_session_time_out(world: World) -> None:
    first, second = world.stable(2)
    world.time.pass_ms(SESSION_MS - 1)
    assert world.heartbeat(first, 2) is E.NONE
    world.time.pass_ms(1)

    assert list(world.group().members) == [first]
    assert world.heartbeat(first, 2) is E.REBALANCE_IN_PROGRESS
    assert world.heartbeat(second, 2) is E.UNKNOWN_MEMBER_ID


def test_a_heartbeat_restarts_the_session_time_out(world: World) -> None:
    (first,) = world.stable()
    for _ in range(10):
        world.time.pass_ms(SESSION_MS - 1)
        assert world.heartbeat(first, 1) is E.NONE


def test_a_commit_counts_as_a_heartbeat(world: World) -> None:
    (first,) = world.stable()
    for offset in range(10):
        world.time.pass_ms(SESSION_MS - 1)
        assert world.commit(offset, first, 1) is E.NONE


def test_a_member_waiting_in_join_needs_no_heartbeats(world: World) -> None:
    (first,) = world.stable(session_timeout_ms=30_000)
    second, joined = world.enter(session_timeout_ms=6_000)
    world.time.pass_ms(29_000)
    assert second in world.group().members

    world.join(first, session_timeout_ms=30_000)
    assert joined[0].error is E.NONE


def test_a_new_member_is_removed_after_waiting_five_minutes_in_join(world: World) -> None:
    (first,) = world.stable(rebalance_timeout_ms=1_000_000, session_timeout_ms=1_000_000)
    _second, joined = world.enter()
    world.time.pass_ms(300_000)

    assert joined == [JoinReply(E.UNKNOWN_MEMBER_ID)]
    assert list(world.group().members) == [first]


def test_a_member_id_that_is_not_used_is_forgotten_after_the_session_time(world: World) -> None:
    (request,) = world.join()
    world.time.pass_ms(SESSION_MS)

    assert world.join(request.member_id) == [JoinReply(E.UNKNOWN_MEMBER_ID, request.member_id)]


def test_a_rebalance_waits_for_pending_members_until_their_session_time_out(world: World) -> None:
    (first,) = world.stable()
    world.join()
    assert world.state is S.STABLE
    (leader,) = [world.join(first)]
    assert leader == []

    world.time.pass_ms(SESSION_MS)
    assert leader[0].error is E.NONE


def test_when_the_last_member_leaves_the_group_is_empty_and_stored(world: World) -> None:
    (first,) = world.stable()
    world.groups.leave_group("g", [Leaver(first, None)])

    assert (world.state, world.group().generation) == (S.EMPTY, 2)
    stored = world.log.records()[-1]
    assert isinstance(stored, GroupRecord) and stored.group is not None
    assert (stored.group.state, stored.group.generation, stored.group.protocol_type) == (
        S.EMPTY,
        2,
        "consumer",
    )
    assert stored.group.leader_id is None
    assert stored.group.protocol_name is None


def test_the_group_of_a_leader_that_leaves_continues_under_another(world: World) -> None:
    first, second = world.stable(2)
    world.groups.leave_group("g", [Leaver(first, None)])
    (joined,) = world.join(second)

    assert (joined.leader_id, joined.generation) == (second, 3)


def test_an_assignment_sent_during_the_next_rebalance_is_refused(world: World) -> None:
    (first,) = world.stable()
    world.enter()
    world.join(first)
    world.enter()

    assert world.sync(first, 2) == [SyncReply(E.REBALANCE_IN_PROGRESS)]


def test_a_waiting_sync_returns_rebalance_in_progress_when_a_member_joins(world: World) -> None:
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)
    world.enter()

    assert waiting == [SyncReply(E.REBALANCE_IN_PROGRESS)]


def test_the_waiting_join_of_a_member_that_leaves_is_answered(world: World) -> None:
    first, second = world.stable(2)
    joining = world.join(second, protocols=protocols("range", topics=("u",)))
    world.groups.leave_group("g", [Leaver(second, None)])

    assert joining == [JoinReply(E.UNKNOWN_MEMBER_ID)]
    world.join(first)
    assert list(world.group().members) == [first]


def test_the_waiting_sync_of_a_member_that_leaves_is_answered(world: World) -> None:
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)
    world.groups.leave_group("g", [Leaver(second, None)])

    assert waiting == [SyncReply(E.UNKNOWN_MEMBER_ID)]


def test_the_first_rebalance_waits_for_more_members_as_configured() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    _, first = world.enter()
    world.time.pass_ms(2_000)
    _, second = world.enter()
    world.time.pass_ms(1_000)
    assert first == second == []
    world.time.pass_ms(3_000)

    assert first[0].generation == second[0].generation == 1
    assert len(first[0].members) == 2


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_time() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    _, first = world.enter(rebalance_timeout_ms=5_000)
    for _ in range(7):
        world.enter(rebalance_timeout_ms=5_000)
        world.time.pass_ms(1_000)

    assert first[0].generation == 1


def test_a_full_group_refuses_new_members() -> None:
    world = World(group_size_max=1)
    world.stable()

    assert world.join() == [JoinReply(E.GROUP_MAX_SIZE_REACHED)]


def test_in_a_rebalance_the_first_to_join_fill_the_group() -> None:
    world = World(group_size_max=2)
    first, second = world.stable(2)
    world.join(first)
    assert world.state is S.PREPARING_REBALANCE
    (request,) = world.join()
    joined = world.join(request.member_id)

    assert world.join(second) == [JoinReply(E.GROUP_MAX_SIZE_REACHED)]
    assert second not in world.group().members
    assert joined == []


def test_a_repeated_join_gets_the_same_reply_before_the_assignment(world: World) -> None:
    first, answers = world.enter()

    assert world.join(first) == answers


def test_an_unchanged_join_of_a_follower_causes_no_rebalance(world: World) -> None:
    first, second = world.stable(2)
    (restarted,) = world.join(second)

    assert (restarted.generation, restarted.leader_id, restarted.members) == (2, first, ())
    assert world.state is S.STABLE


def test_timers_of_a_deleted_group_have_no_effect(world: World) -> None:
    (first,) = world.stable()
    world.groups.leave_group("g", [Leaver(first, None)])
    world.groups.delete_group("g")
    world.time.pass_ms(10_000_000)

    assert world.groups.group("g") is None


def test_repeated_heartbeats_leave_only_one_session_timer(world: World) -> None:
    (first,) = world.stable()
    for _ in range(1_000):
        world.heartbeat(first, 1)
    sweep, session = 1, 1

    assert world.time.running == sweep + session


def test_states_are_reported_as_events(world: World) -> None:
    (first,) = world.stable()
    world.groups.leave_group("g", [Leaver(first, None)])
    world.groups.delete_group("g")

    assert {name for name, _ in world.events} == {"group_state_changed"}
    assert [facts["to_state"] for _, facts in world.events] == [
        "CompletingRebalance",
        "Stable",
        "Empty",
        "Dead",
    ]


def test_an_assignment_that_cannot_be_stored_is_not_given_out(world: World) -> None:
    first, _ = world.enter()
    world.log.is_full = True
    with pytest.raises(DiskFull):
        world.sync(first, 1, assignments=((first, b"1"),))
    assert world.state is S.COMPLETING_REBALANCE

    world.log.is_full = False
    assert world.sync(first, 1, assignments=((first, b"1"),))[0].assignment == b"1"


def test_a_group_that_cannot_be_stored_is_not_created(world: World) -> None:
    world.log.is_full = True
    with pytest.raises(DiskFull):
        world.join()

    assert world.groups.group("g") is None


def test_a_session_time_out_that_fails_on_a_full_disk_is_retried(world: World) -> None:
    world.stable()
    world.log.is_full = True
    with pytest.raises(DiskFull):
        world.time.pass_ms(SESSION_MS)
    assert world.state is S.STABLE

    world.log.is_full = False
    world.time.pass_ms(1_000)
    assert world.state is S.EMPTY


def test_a_member_survives_a_restart_of_the_broker(world: World) -> None:
    first, second = world.stable(2)
    before = world.group()
    world.restart()

    assert world.heartbeat(first, 2) is E.NONE
    assert world.sync(second, 2)[0].assignment == second.encode()
    assert world.group().subscribed_topics == before.subscribed_topics
    world.time.pass_ms(SESSION_MS)
    assert world.state is S.EMPTY


def test_a_group_above_the_limit_after_a_restart_is_made_smaller(world: World) -> None:
    first, second = world.stable(2)
    world.config = replace(world.config, group_size_max=1)
    world.restart()
    assert world.state is S.PREPARING_REBALANCE
    joining = world.join(first)

    assert world.join(second)[0].error is E.GROUP_MAX_SIZE_REACHED
    world.time.pass_ms(REBALANCE_MS)
    assert joining[0].error is E.NONE
