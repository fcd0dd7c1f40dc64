"""A classic group: its states, and everything that is known about it.

        ┌──────────────────────────────────────────────────────────┐
        │ nobody is left                                           │
        ▼            somebody joins                                │
      EMPTY ───────────────────────────────► PREPARING_REBALANCE ──┘
                                              ▲     ▲      │
              somebody joins, leaves or fails │     │      │ all have joined, or time is up
                                              │     │      ▼
                                           STABLE   └── COMPLETING_REBALANCE
                                              ▲            │
                                              └────────────┘ the leader has sent the assignment

Every state may become DEAD, when the group is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

CONSUMER_PROTOCOL: Final = "consumer"
"""Protocol type of groups whose members say which topics they read, in a form that the broker knows."""


class GroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """No members. It may hold offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are gathered: each of them must send JoinGroup."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its leader's assignment is awaited."""

    STABLE = "Stable"
    """Every member can get its assignment."""

    DEAD = "Dead"
    """The group has been removed."""


S = GroupState
SUCCESSORS: Final[dict[GroupState, frozenset[GroupState]]] = {
    S.EMPTY: frozenset({S.PREPARING_REBALANCE, S.DEAD}),
    S.PREPARING_REBALANCE: frozenset({S.EMPTY, S.COMPLETING_REBALANCE, S.DEAD}),
    S.COMPLETING_REBALANCE: frozenset({S.PREPARING_REBALANCE, S.STABLE, S.DEAD}),
    S.STABLE: frozenset({S.PREPARING_REBALANCE, S.DEAD}),
    S.DEAD: frozenset(),
}


class Protocol(NamedTuple):
    """An assignment protocol that a member supports, with the member's metadata for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group. Never changed in place."""

    member_id: str
    instance_id: str | None
    """Set for a static member: a name that outlives its member id."""

    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """In the order in which the member likes them."""

    assignment: bytes = b""
    is_new: bool = False
    """It waits in its first JoinGroup, so that the wait is limited."""

    awaiting_join: bool = False
    """A JoinGroup request of it is unanswered."""

    awaiting_sync: bool = False
    """A SyncGroup request of it is unanswered."""

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol that it supports."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not know the protocol {protocol_name}")


@dataclass(frozen=True, slots=True)
class Group:
    """A classic group. Never changed in place: `decide` returns another one."""

    group_id: str
    state: GroupState = S.EMPTY
    entered_at_ms: int | None = None
    """Wall-clock ms when the group entered its state; None if read from a record of an old version."""

    protocol_type: str | None = None
    """None until the first member joins: a group without it only stores offsets ("simple")."""

    protocol_name: str | None = None
    generation: int = 0
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    """By member id, in the order of joining. Never changed in place."""

    pending_join: frozenset[str] = frozenset()
    """Member ids that were given out and have not come back with a JoinGroup yet."""

    pending_sync: frozenset[str] = frozenset()
    """Members of this generation that have not sent SyncGroup yet."""

    is_initial_rebalance: bool = False
    """PREPARING_REBALANCE was entered from EMPTY: it ends with its delay, not when all have joined."""

    has_new_member: bool = False
    """A member joined since the current delay of the initial rebalance began, which may extend it."""

    subscribed_topics: frozenset[str] | None = None
    """Topics that the members of the last generation subscribe to; None if unknown."""

    @property
    def all_joined(self) -> bool:
        """Whether every member has sent JoinGroup, and no member id that was given out is awaited."""
        return not self.pending_join and all(member.awaiting_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the member id of a static member, None when there is none of this instance id."""
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member.member_id
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; unknown counts as yes for consumers."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL


def members_bytes(group: Group) -> int:
    """Bytes of metadata and assignments that the members of a group brought along."""
    return sum(
        len(member.assignment) + sum(len(protocol.metadata) for protocol in member.protocols)
        for member in group.members.values()
    )


def advance(group: Group, state: GroupState, now_ms: int) -> Group:
    """Return the group in another state. The only transition: it checks the diagram."""
    assert state in SUCCESSORS[group.state], f"{group.group_id}: {group.state.name} -> {state.name}"
    return replace(group, state=state, entered_at_ms=now_ms)


def with_member(group: Group, member: Member) -> Group:
    """The group with the member added, or in place of the one with the same id."""
    return replace(group, members={**group.members, member.member_id: member})


def without(group: Group, member_ids: Collection[str]) -> Group:
    """The group without some members, or without some that were still expected to join."""
    members = {key: member for key, member in group.members.items() if key not in member_ids}
    leader_id = group.leader_id
    if leader_id in member_ids:
        # Unlike Kafka: the longest-standing member leads, where Kafka takes any (the order of a hash map).
        leader_id = next(iter(members), None)
    return replace(
        group,
        members=members,
        leader_id=leader_id,
        pending_join=group.pending_join.difference(member_ids),
        pending_sync=group.pending_sync.difference(member_ids),
    )
