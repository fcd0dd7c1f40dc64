"""Static members (KIP-345): a member with an instance id can restart without a rebalance."""

from __future__ import annotations

from stuntbroker.groups.classic.requests import JoinReply, Leaver, SyncReply
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.groups.records import GroupRecord
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.groups.group_world import SESSION_MS, World, protocols

S = GroupState
E = ErrorCode


def static_group(world: World) -> tuple[str, str]:
    """Static members a (the leader) and b, stable in generation 2."""
    (first,) = world.join(instance_id="a")
    world.settle()
    second = world.join(instance_id="b")
    world.join(first.member_id, instance_id="a")
    world.settle()
    return first.member_id, second[0].member_id


def test_a_static_member_joins_without_asking_for_an_id(world: World) -> None:
    (joined,) = world.join(instance_id="a")

    assert (joined.error, joined.member_id) == (E.NONE, "a-1")
    assert joined.members[0].instance_id == "a"


def test_a_restarted_static_member_keeps_its_assignment_without_a_rebalance(world: World) -> None:
    first, second = static_group(world)
    (back,) = world.join(instance_id="b")

    assert back.member_id not in (first, second)
    assert (back.error, back.generation, back.leader_id, back.skip_assignment) == (E.NONE, 2, first, False)
    assert world.state is S.STABLE
    assert world.sync(back.member_id, 2, instance_id="b")[0].assignment == second.encode()


def test_the_replaced_instance_of_a_static_member_is_fenced(world: World) -> None:
    _, second = static_group(world)
    world.join(instance_id="b")

    assert world.groups.heartbeat("g", second, "b", 2) is E.FENCED_INSTANCE_ID
    assert world.heartbeat(second, 2) is E.UNKNOWN_MEMBER_ID
    assert world.sync(second, 2, instance_id="b") == [SyncReply(E.FENCED_INSTANCE_ID)]
    assert world.join(second, instance_id="b") == [JoinReply(E.FENCED_INSTANCE_ID, second)]
    assert world.groups.leave_group("g", [Leaver(second, "b")]).members == (E.FENCED_INSTANCE_ID,)


def test_a_restarted_static_leader_gets_skip_assignment(world: World) -> None:
    """KIP-814, version 9."""
    static_group(world)
    (back,) = world.join(instance_id="a")

    assert (back.leader_id, back.skip_assignment) == (back.member_id, True)
    assert len(back.members) == 2


def test_a_restarted_static_leader_below_version_9_gets_its_old_member_id_as_leader(world: World) -> None:
    first, _ = static_group(world)
    (back,) = world.join(instance_id="a", skips_assignment=False)

    assert (back.leader_id, back.skip_assignment, back.members) == (first, False, ())


def test_the_new_member_id_of_a_restarted_static_member_is_stored(world: World) -> None:
    static_group(world)
    (back,) = world.join(instance_id="b")
    stored = world.log.records()[-1]

    assert isinstance(stored, GroupRecord) and stored.group is not None
    assert back.member_id in stored.group.members


def test_a_restarted_static_member_with_other_protocols_causes_a_rebalance(world: World) -> None:
    (joined,) = world.join(instance_id="a", protocols=protocols("range", "sticky"))
    world.settle()
    (back,) = world.join(instance_id="a", protocols=protocols("sticky", "range"))

    assert (back.generation, back.protocol_name) == (2, "sticky")
    assert back.member_id != joined.member_id


def test_a_static_member_that_restarts_before_the_assignment_causes_a_rebalance(world: World) -> None:
    first, second = static_group(world)
    joining = world.join(first, instance_id="a")
    world.join(second, instance_id="b")
    waiting = world.sync(second, 3, instance_id="b")
    assert joining[0].generation == 3
    world.join(instance_id="b")

    assert waiting == [SyncReply(E.FENCED_INSTANCE_ID)]
    assert world.state is S.PREPARING_REBALANCE


def test_the_waiting_join_of_a_replaced_static_member_is_fenced(world: World) -> None:
    first, second = static_group(world)
    waiting = world.join(second, instance_id="b", protocols=protocols("range", topics=("u",)))
    world.join(instance_id="b")

    assert waiting == [JoinReply(E.FENCED_INSTANCE_ID, second)]
    assert world.state is S.PREPARING_REBALANCE
    assert world.join(first, instance_id="a")[0].generation == 3


def test_a_static_member_that_misses_a_rebalance_stays_until_its_session_is_over(world: World) -> None:
    first, second = static_group(world)
    joining = world.join(first, instance_id="a", rebalance_timeout_ms=1_000)
    world.group()
    for _ in range(7):
        world.time.pass_ms(9_000)
        world.groups.heartbeat("g", second, "b", 2)

    assert joining[0].error is E.NONE
    assert [each.member_id for each in joining[0].members] == [first, second]


def test_a_rebalance_that_no_static_member_joins_is_put_off(world: World) -> None:
    (joined,) = world.join(instance_id="a", session_timeout_ms=100_000, rebalance_timeout_ms=1_000)
    world.settle()
    other, _ = world.enter(rebalance_timeout_ms=1_000)
    world.groups.leave_group("g", [Leaver(other, None)])
    assert world.state is S.PREPARING_REBALANCE
    world.time.pass_ms(5_000)
    assert world.state is S.PREPARING_REBALANCE

    assert world.join(joined.member_id, instance_id="a")[0].generation == 2


def test_an_administrator_removes_a_static_member_by_its_name(world: World) -> None:
    first, _ = static_group(world)

    assert world.groups.leave_group("g", [Leaver("", "b")]).members == (E.NONE,)
    assert list(world.group().members) == [first]


def test_a_static_member_is_removed_after_its_session_time_out(world: World) -> None:
    first, _ = static_group(world)
    world.time.pass_ms(SESSION_MS - 1)
    world.groups.heartbeat("g", first, "a", 2)
    world.time.pass_ms(1)

    assert list(world.group().members) == [first]
