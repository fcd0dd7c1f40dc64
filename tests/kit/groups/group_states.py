"""A group in each of its states."""

from __future__ import annotations

from typing import Any

from stuntbroker.groups.classic.state import Group, GroupState, Member
from tests.kit.groups.group_world import protocols

S = GroupState


def member(member_id: str, instance_id: str | None = None, **changes: Any) -> Member:
    fields: dict[str, Any] = {
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocols": protocols("range"),
    }
    return Member(member_id, instance_id, **{**fields, **changes})


def group(state: GroupState, **changes: Any) -> Group:
    """Return a group in generation 3 with leader l, follower f and static member s (instance i); none if empty or dead."""
    if state in (S.EMPTY, S.DEAD):
        return Group("g", state=state, generation=3, protocol_type="consumer")
    members = {each.member_id: each for each in (member("l"), member("f"), member("s", "i"))}
    fields: dict[str, Any] = {
        "protocol_type": "consumer",
        "protocol_name": "range",
        "generation": 3,
        "leader_id": "l",
        "members": members,
    }
    return Group("g", state=state, **{**fields, **changes})
