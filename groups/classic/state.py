"""The state of a classic group, and the transitions between its states.

        ┌──────────────────────────────────────────────────────────┐
        │ no members are left                                      │
        ▼            a member joins                                │
      EMPTY ───────────────────────────────► PREPARING_REBALANCE ──┘
                                              ▲     ▲      │
              a member joins, leaves or fails │     │      │ all have joined, or the rebalance time-out is over
                                              │     │      ▼
                                           STABLE   └── COMPLETING_REBALANCE
                                              ▲            │
                                              └────────────┘ the leader has sent the assignment

Every state may become DEAD, when the group is removed. A request that finds a DEAD group is answered by the rules, although the
coordinator passes none to a removed group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

CONSUMER_PROTOCOL: Final = "consumer"
"""Protocol type of consumers: the broker can decode the topics in their metadata (ConsumerProtocolSubscription)."""


class GroupState(Enum):
    """State of a classic group. The value is the name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    """The group has no members, but may have offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """A rebalance has begun: every member must send JoinGroup."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun, and waits for the assignment of its leader."""

    STABLE = "Stable"
    """The assignment is complete: every member can get its own."""

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
    """`group.instance.id` of a static member, which stays the same when its member id changes."""

    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """Supported protocols in order of preference."""

    assignment: bytes = b""
    is_new: bool = False
    """Whether the member waits in its first JoinGroup, for which the wait is limited."""

    awaiting_join: bool = False
    """Whether a JoinGroup request of the member is waiting."""

    awaiting_sync: bool = False
    """Whether a SyncGroup request of the member is waiting."""

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
    """None until the first member joins; a group without a protocol type is simple: it only stores offsets."""

    protocol_name: str | None = None
    generation: int = 0
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    """Member id -> member, in the order of joining. Never changed in place."""

    pending_join: frozenset[str] = frozenset()
    """Member ids that were assigned but not used in a JoinGroup yet."""

    pending_sync: frozenset[str] = frozenset()
    """Members of this generation that have not sent SyncGroup yet."""

    is_initial_rebalance: bool = False
    """Whether PREPARING_REBALANCE was entered from EMPTY: the rebalance then ends after its delay, not when all have joined."""

    has_new_member: bool = False
    """Whether a member has joined during the current delay of the initial rebalance, which may then be extended."""

    subscribed_topics: frozenset[str] | None = None
    """Topics that the members of the last generation subscribe to; None if unknown."""

    @property
    def all_joined(self) -> bool:
        """Whether every member has sent JoinGroup, and no assigned member id is pending."""
        return not self.pending_join and all(member.awaiting_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of the members, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the member id of the static member with this instance id, None if there is none."""
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member.member_id
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; True for consumers whose subscription is unknown."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL


def members_bytes(group: Group) -> int:
    """Return the size in bytes of the metadata and assignments of all members of a group."""
    return sum(
        len(member.assignment) + sum(len(protocol.metadata) for protocol in member.protocols)
        for member in group.members.values()
    )


def advance(group: Group, state: GroupState, now_ms: int) -> Group:
    """Return the group in another state. Asserts that the diagram has the transition."""
    assert state in SUCCESSORS[group.state], f"{group.group_id}: {group.state.name} -> {state.name}"
    return replace(group, state=state, entered_at_ms=now_ms)


def with_member(group: Group, member: Member) -> Group:
    """Return the group with a member added, or replaced if it has one with the same id."""
    return replace(group, members={**group.members, member.member_id: member})


def without(group: Group, member_ids: Collection[str]) -> Group:
    """Return the group without these members and pending member ids; the first remaining member replaces a lost leader."""
    members = {key: member for key, member in group.members.items() if key not in member_ids}
    leader_id = group.leader_id
    if leader_id in member_ids:
        # Unlike Kafka: the member that joined first becomes the leader; Kafka takes any (the order of a hash map).
        leader_id = next(iter(members), None)
    return replace(
        group,
        members=members,
        leader_id=leader_id,
        pending_join=group.pending_join.difference(member_ids),
        pending_sync=group.pending_sync.difference(member_ids),
    )
