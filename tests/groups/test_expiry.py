"""Retention of offsets and empty groups."""

from __future__ import annotations

from stuntbroker.groups.classic.requests import Leaver
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.groups.offset_requests import OffsetCommit
from tests.kit.groups.group_world import World

DAY_MS = 24 * 3_600_000
RETENTION_MS = 7 * DAY_MS
SWEEP_MS = 600_000


def test_an_offset_of_a_simple_group_lives_for_the_retention_time_after_its_commit(world: World) -> None:
    world.commit(1)
    world.time.pass_ms(RETENTION_MS - SWEEP_MS)
    assert world.offset().offset == 1
    world.time.pass_ms(SWEEP_MS)

    assert world.offset().offset == -1
    assert world.groups.group("g") is None


def test_offsets_of_a_group_live_for_the_retention_time_after_the_last_member_left(world: World) -> None:
    (first,) = world.stable(session_timeout_ms=1_800_000)
    world.commit(1, first, 1)
    for _ in range(20 * 96):
        world.time.pass_ms(DAY_MS // 96)
        world.heartbeat(first, 1)
    world.groups.leave_group("g", [Leaver(first, None)])
    world.time.pass_ms(RETENTION_MS - SWEEP_MS)
    assert world.offset().offset == 1
    world.time.pass_ms(SWEEP_MS)

    assert world.offset().offset == -1
    assert world.groups.group("g") is None


def test_offsets_of_topics_that_no_member_subscribes_to_expire(world: World) -> None:
    (first,) = world.stable(session_timeout_ms=1_800_000)
    world.commit(1, first, 1)
    world.commit(2, first, 1, topic="u")
    for _ in range(8 * 96):
        world.time.pass_ms(DAY_MS // 96)
        world.heartbeat(first, 1)

    assert (world.offset().offset, world.offset(topic="u").offset) == (1, -1)
    assert world.state is GroupState.STABLE


def test_an_offset_with_an_open_transaction_does_not_expire(world: World) -> None:
    world.commit(1)
    world.commit(2, partition=1)
    world.commit_in_txn(7, 3)
    world.time.pass_ms(2 * RETENTION_MS)
    assert (world.offset().offset, world.offset(partition=1).offset) == (1, -1)

    world.end_txn(7, commit=False)
    world.time.pass_ms(SWEEP_MS)
    assert world.offset().offset == -1


def test_a_group_with_an_open_transaction_is_not_removed(world: World) -> None:
    world.commit_in_txn(7, 3)
    world.time.pass_ms(2 * RETENTION_MS)

    assert world.state is GroupState.EMPTY


def test_an_old_client_chooses_the_retention_of_its_commit(world: World) -> None:
    world.groups.commit("g", "", None, -1, [OffsetCommit("t", 0, 1)], version=4, retention_ms=DAY_MS)
    world.groups.commit("g", "", None, -1, [OffsetCommit("t", 1, 2)], version=4, retention_ms=20 * DAY_MS)
    world.restart()
    world.time.pass_ms(DAY_MS)
    assert (world.offset().offset, world.offset(partition=1).offset) == (-1, 2)
    world.time.pass_ms(18 * DAY_MS)

    assert world.offset(partition=1).offset == 2


def test_an_empty_group_without_offsets_is_removed_by_the_next_sweep(world: World) -> None:
    world.join()
    assert world.state is GroupState.EMPTY
    world.time.pass_ms(SWEEP_MS)

    assert world.groups.group("g") is None
    assert world.replayed().list_groups() == []


def test_the_sweep_continues_after_a_restart(world: World) -> None:
    world.commit(1)
    world.restart()
    world.time.pass_ms(RETENTION_MS + SWEEP_MS)

    assert world.groups.group("g") is None


def test_no_timer_runs_after_stop(world: World) -> None:
    world.stable(2)
    world.groups.stop()

    assert world.time.running == 0
