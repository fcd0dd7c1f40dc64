"""The response to each request in each state of the group."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from stuntbroker.groups.classic.membership import decide, heartbeat, member_error
from stuntbroker.groups.classic.requests import Decision, JoinReply, LeaveGroup, Leaver, LeaveReply, Respond, SyncReply
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.groups.group_states import S, group, member
from tests.kit.groups.group_world import DEFAULTS, World, join, protocols, sync

E = ErrorCode


def answer_of(decision: Decision) -> Any:
    """The error of the response; None while the request waits."""
    answers = [effect.reply for effect in decision.effects if isinstance(effect, Respond)]
    return answers[0].error if answers else None


SENDERS = [
    #  member, instance, error
    ("l",     None,     E.NONE),
    ("s",     "i",      E.NONE),
    ("s",     None,     E.NONE),
    ("l",     "i",      E.FENCED_INSTANCE_ID),
    ("x",     "i",      E.FENCED_INSTANCE_ID),
    ("x",     None,     E.UNKNOWN_MEMBER_ID),
    ("x",     "j",      E.UNKNOWN_MEMBER_ID),
    ("l",     "j",      E.UNKNOWN_MEMBER_ID),
    ("s",     "j",      E.UNKNOWN_MEMBER_ID),
    ("",      None,     E.UNKNOWN_MEMBER_ID),
]  # fmt: skip


@pytest.mark.parametrize(("member_id", "instance_id", "error"), SENDERS)
def test_a_member_is_identified_by_member_id_and_instance_id(
    member_id: str, instance_id: str | None, error: ErrorCode
) -> None:
    """KIP-345: if two members use the same instance id, the older one is fenced."""
    assert member_error(group(S.STABLE), member_id, instance_id) is error


HEARTBEATS = [
    #  state                   member  generation  error
    (S.EMPTY,                  "l",    3,          E.UNKNOWN_MEMBER_ID),
    (S.PREPARING_REBALANCE,    "l",    3,          E.REBALANCE_IN_PROGRESS),
    (S.PREPARING_REBALANCE,    "l",    2,          E.ILLEGAL_GENERATION),
    (S.COMPLETING_REBALANCE,   "l",    3,          E.NONE),
    (S.COMPLETING_REBALANCE,   "l",    2,          E.ILLEGAL_GENERATION),
    (S.STABLE,                 "l",    3,          E.NONE),
    (S.STABLE,                 "l",    4,          E.ILLEGAL_GENERATION),
    (S.STABLE,                 "x",    4,          E.UNKNOWN_MEMBER_ID),
    (S.DEAD,                   "l",    3,          E.COORDINATOR_NOT_AVAILABLE),
]  # fmt: skip


@pytest.mark.parametrize(("state", "member_id", "generation", "error"), HEARTBEATS)
def test_heartbeat(state: GroupState, member_id: str, generation: int, error: ErrorCode) -> None:
    assert heartbeat(group(state), member_id, None, generation) is error


def test_heartbeat_is_decided_for_every_state() -> None:
    assert {state for state, *_ in HEARTBEATS} == set(S)


SYNCS = [
    #  state                   member  generation  type        name     error
    (S.EMPTY,                  "f",    3,          None,       None,    E.UNKNOWN_MEMBER_ID),
    (S.PREPARING_REBALANCE,    "f",    3,          None,       None,    E.REBALANCE_IN_PROGRESS),
    (S.PREPARING_REBALANCE,    "f",    2,          None,       None,    E.ILLEGAL_GENERATION),
    (S.COMPLETING_REBALANCE,   "f",    3,          None,       None,    None),
    (S.COMPLETING_REBALANCE,   "f",    2,          None,       None,    E.ILLEGAL_GENERATION),
    (S.COMPLETING_REBALANCE,   "f",    3,          "connect",  None,    E.INCONSISTENT_GROUP_PROTOCOL),
    (S.COMPLETING_REBALANCE,   "f",    3,          "consumer", "other", E.INCONSISTENT_GROUP_PROTOCOL),
    (S.COMPLETING_REBALANCE,   "f",    3,          "consumer", "range", None),
    (S.STABLE,                 "f",    3,          "consumer", "range", E.NONE),
    (S.STABLE,                 "x",    3,          None,       None,    E.UNKNOWN_MEMBER_ID),
    (S.DEAD,                   "f",    3,          None,       None,    E.COORDINATOR_NOT_AVAILABLE),
]  # fmt: skip


@pytest.mark.parametrize(("state", "member_id", "generation", "protocol_type", "protocol_name", "error"), SYNCS)
def test_sync_of_a_follower(
    state: GroupState,
    member_id: str,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    error: ErrorCode | None,
) -> None:
    request = sync(member_id, generation, protocol_type=protocol_type, protocol_name=protocol_name)

    assert answer_of(decide(group(state), request, 0, DEFAULTS)) is error


def test_sync_is_decided_for_every_state() -> None:
    assert {state for state, *_ in SYNCS} == set(S)


LEAVES = [
    #  leaver            error                 leaves
    (Leaver("f", None),  E.NONE,               "f"),
    (Leaver("s", "i"),   E.NONE,               "s"),
    (Leaver("s", None),  E.NONE,               "s"),
    (Leaver("", "i"),    E.NONE,               "s"),
    (Leaver("", "j"),    E.UNKNOWN_MEMBER_ID,  None),
    (Leaver("", None),   E.UNKNOWN_MEMBER_ID,  None),
    (Leaver("x", None),  E.UNKNOWN_MEMBER_ID,  None),
    (Leaver("f", "i"),   E.FENCED_INSTANCE_ID, None),
]  # fmt: skip


@pytest.mark.parametrize(("leaver", "error", "gone"), LEAVES)
def test_leave_group_removes_the_named_member(leaver: Leaver, error: ErrorCode, gone: str | None) -> None:
    decision = decide(group(S.STABLE), LeaveGroup((leaver,)), 0, DEFAULTS)

    assert Respond(LeaveReply(E.NONE, (error,))) in decision.effects
    assert set(decision.group.members) == {"l", "f", "s"} - {gone}
    assert decision.group.state is (S.STABLE if gone is None else S.PREPARING_REBALANCE)


def test_leave_group_returns_an_error_code_for_each_member() -> None:
    leavers = (Leaver("f", None), Leaver("x", None), Leaver("", "i"))
    decision = decide(group(S.STABLE), LeaveGroup(leavers), 0, DEFAULTS)

    assert Respond(LeaveReply(E.NONE, (E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE))) in decision.effects
    assert list(decision.group.members) == ["l"]


def test_a_member_named_twice_in_leave_group_is_unknown_the_second_time() -> None:
    leavers = (Leaver("f", None), Leaver("f", None), Leaver("", "i"), Leaver("", "i"), Leaver("s", "i"))
    decision = decide(group(S.STABLE), LeaveGroup(leavers), 0, DEFAULTS)

    errors = (E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)
    assert Respond(LeaveReply(E.NONE, errors)) in decision.effects


def test_a_leader_that_leaves_with_others_is_followed_by_a_member_that_stays() -> None:
    decision = decide(group(S.STABLE), LeaveGroup((Leaver("l", None), Leaver("f", None))), 0, DEFAULTS)

    assert decision.group.leader_id == "s"


def opcodes_of(work: Callable[[], object]) -> int:
    """Number of bytecode instructions that a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("instance_id", ["i{}", "other{}", None], ids=["static", "fenced", "dynamic"])
def test_the_work_of_a_leave_grows_with_the_members_and_not_with_their_square(instance_id: str | None) -> None:
    def steps(count: int) -> int:
        static = instance_id is not None
        members = {f"m{n}": member(f"m{n}", f"i{n}" if static else None) for n in range(count)}
        leavers = tuple(Leaver(f"m{n}", instance_id and instance_id.format(n)) for n in range(count))
        before = group(S.STABLE, members=members, leader_id="m0")
        return opcodes_of(lambda: decide(before, LeaveGroup(leavers), 0, DEFAULTS))

    assert steps(400) < 6 * steps(100)


JOINS = [
    #  state                   member  changed  error                  becomes
    (S.EMPTY,                  "x",    False,   E.UNKNOWN_MEMBER_ID,   S.EMPTY),
    (S.PREPARING_REBALANCE,    "f",    False,   None,                  S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE,    "x",    False,   E.UNKNOWN_MEMBER_ID,   S.PREPARING_REBALANCE),
    (S.COMPLETING_REBALANCE,   "f",    False,   E.NONE,                S.COMPLETING_REBALANCE),
    (S.COMPLETING_REBALANCE,   "l",    False,   E.NONE,                S.COMPLETING_REBALANCE),
    (S.COMPLETING_REBALANCE,   "f",    True,    None,                  S.PREPARING_REBALANCE),
    (S.STABLE,                 "f",    False,   E.NONE,                S.STABLE),
    (S.STABLE,                 "f",    True,    None,                  S.PREPARING_REBALANCE),
    (S.STABLE,                 "l",    False,   None,                  S.PREPARING_REBALANCE),
    (S.STABLE,                 "x",    False,   E.UNKNOWN_MEMBER_ID,   S.STABLE),
    (S.DEAD,                   "l",    False,   E.COORDINATOR_NOT_AVAILABLE, S.DEAD),
]  # fmt: skip


@pytest.mark.parametrize(("state", "member_id", "changed", "error", "becomes"), JOINS)
def test_join_with_a_member_id(
    state: GroupState, member_id: str, changed: bool, error: ErrorCode | None, becomes: GroupState
) -> None:
    offered = protocols("range", topics=("t", "u")) if changed else protocols("range")
    decision = decide(group(state), join(member_id, protocols=offered), 0, DEFAULTS)

    assert (answer_of(decision), decision.group.state) == (error, becomes)


def test_join_is_decided_for_every_state() -> None:
    assert {state for state, *_ in JOINS} == set(S)


def test_a_repeated_join_returns_the_members_to_the_leader_only() -> None:
    completing = group(S.COMPLETING_REBALANCE)
    (to_leader,) = decide(completing, join("l"), 0, DEFAULTS).effects
    (to_follower,) = decide(completing, join("f"), 0, DEFAULTS).effects

    assert isinstance(to_leader, Respond) and isinstance(to_leader.reply, JoinReply)
    assert isinstance(to_follower, Respond) and isinstance(to_follower.reply, JoinReply)
    assert [each.member_id for each in to_leader.reply.members] == ["l", "f", "s"]
    assert to_follower.reply.members == ()
    assert to_follower.reply.leader_id == "l"


@pytest.mark.parametrize(
    ("state", "protocol_type", "names"),
    [
        (S.EMPTY, "", ("range",)),
        (S.EMPTY, "consumer", ()),
        (S.STABLE, "connect", ("range",)),
        (S.STABLE, "consumer", ("sticky",)),
        (S.STABLE, "consumer", ()),
    ],
)
def test_join_requires_a_protocol_that_all_members_support(
    state: GroupState, protocol_type: str, names: tuple[str, ...]
) -> None:
    request = join(protocol_type=protocol_type, protocols=protocols(*names))

    assert answer_of(decide(group(state), request, 0, DEFAULTS)) is E.INCONSISTENT_GROUP_PROTOCOL


def test_an_error_reply_leaves_the_group_unchanged() -> None:
    for state in S:
        for request in (join("x"), sync("x", 3), sync("f", 2), LeaveGroup((Leaver("x", None),))):
            before = group(state)
            decision = decide(before, request, 0, DEFAULTS)
            assert decision.group == before
            assert decision.store is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 6_000}, E.MEMBER_ID_REQUIRED),
        ({"session_timeout_ms": 1_800_000}, E.MEMBER_ID_REQUIRED),
        ({"session_timeout_ms": 6_000, "requires_member_id": False}, E.NONE),
    ],
)
def test_join_of_a_new_member(world: World, changes: dict[str, Any], error: ErrorCode) -> None:
    (reply,) = world.join(**changes)

    assert reply.error is error


def test_requests_to_a_group_that_does_not_exist(world: World) -> None:
    assert world.join("m") == [JoinReply(E.UNKNOWN_MEMBER_ID, "m")]
    assert world.sync("m", 1) == [SyncReply(E.UNKNOWN_MEMBER_ID)]
    assert world.heartbeat("m", 1) is E.UNKNOWN_MEMBER_ID
    assert world.groups.leave_group("g", [Leaver("m", None)]) == LeaveReply(E.NONE, (E.UNKNOWN_MEMBER_ID,))
    assert world.groups.group("g") is None


def test_requests_without_a_group_id(world: World) -> None:
    assert world.sync("m", 1, "") == [SyncReply(E.INVALID_GROUP_ID)]
    assert world.heartbeat("m", 1, "") is E.INVALID_GROUP_ID
    assert world.groups.leave_group("", [Leaver("m", None)]) == LeaveReply(E.INVALID_GROUP_ID)
