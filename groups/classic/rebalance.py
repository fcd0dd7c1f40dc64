"""Rules of a rebalance, which leads a group from one generation to the next.

Each function takes a group and returns its new state; effects, and the state to store, are collected in
`Work`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from stuntbroker.groups.classic.records import subscribed_topics
from stuntbroker.groups.classic.requests import (
    JOIN_TIMER,
    SYNC_TIMER,
    Arm,
    Complete,
    Disarm,
    Effect,
    InitialDelayOver,
    JoinDeadline,
    JoinedMember,
    JoinReply,
    Park,
    Reply,
    Respond,
    SessionExpired,
    SyncDeadline,
    SyncReply,
    session_of,
)
from stuntbroker.groups.classic.state import (
    SUCCESSORS,
    Group,
    GroupState,
    Member,
    Protocol,
    advance,
    with_member,
    without,
)
from stuntbroker.groups.config import GroupConfig
from stuntbroker.protocol.errors import ErrorCode


class Work:
    """Record to store and effects that one decision has collected so far."""

    __slots__ = ("config", "effects", "now_ms", "store")

    def __init__(self, now_ms: int, config: GroupConfig) -> None:
        self.now_ms = now_ms
        self.config = config
        self.store: Group | None = None
        self.effects: list[Effect] = []

    def answer(self, reply: Reply) -> None:
        """Answer the request that is being decided."""
        self.effects.append(Respond(reply))

    def park_join(self, member_id: str) -> None:
        """Keep the request as the member's waiting JoinGroup."""
        self.effects.append(Park(member_id, joins=True))

    def park_sync(self, member_id: str) -> None:
        """Keep the request as the member's waiting SyncGroup."""
        self.effects.append(Park(member_id, joins=False))

    def complete(self, member_id: str, reply: JoinReply | SyncReply) -> None:
        """Answer a member's waiting request."""
        self.effects.append(Complete(member_id, reply))

    def arm_session(self, member_id: str, timeout_ms: int) -> None:
        """Restart a member's session time-out."""
        expired = SessionExpired(member_id)
        self.effects.append(Arm(session_of(member_id), timeout_ms, expired))

    def arm_join(self, timeout_ms: int, event: JoinDeadline | InitialDelayOver) -> None:
        """Start the time-out of the join phase."""
        self.effects.append(Arm(JOIN_TIMER, timeout_ms, event))

    def arm_sync(self, timeout_ms: int, generation: int) -> None:
        """Start the time-out of the sync phase."""
        self.effects.append(Arm(SYNC_TIMER, timeout_ms, SyncDeadline(generation)))

    def disarm_session(self, member_id: str) -> None:
        """Stop a member's session time-out."""
        self.effects.append(Disarm(session_of(member_id)))

    def disarm_join(self) -> None:
        """Stop the time-out of the join phase."""
        self.effects.append(Disarm(JOIN_TIMER))

    def disarm_sync(self) -> None:
        """Stop the time-out of the sync phase."""
        self.effects.append(Disarm(SYNC_TIMER))


def rebalance_or_complete(group: Group, work: Work) -> Group:
    """Start a rebalance because the members have changed; if one is in progress, complete it when all have joined."""
    if GroupState.PREPARING_REBALANCE in SUCCESSORS[group.state]:
        return prepare_rebalance(group, work)
    return complete_if_all_joined(group, work)


def prepare_rebalance(group: Group, work: Work) -> Group:
    """Start a rebalance: every member must rejoin."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        group = propagate_assignments(group, {}, ErrorCode.REBALANCE_IN_PROGRESS, work)
    work.disarm_sync()
    is_initial = group.state is GroupState.EMPTY
    group = replace(
        advance(group, GroupState.PREPARING_REBALANCE, work.now_ms),
        pending_sync=frozenset(),
        is_initial_rebalance=is_initial,
        has_new_member=False,
    )
    if is_initial:
        delay_ms = work.config.initial_rebalance_delay_ms
        if not delay_ms:
            return complete_join(group, work)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        work.arm_join(delay_ms, InitialDelayOver(delay_ms, remaining_ms))
        return group
    if group.all_joined:
        return complete_join(group, work)
    work.arm_join(group.rebalance_timeout_ms, JoinDeadline())
    return group


def initial_delay_over(group: Group, event: InitialDelayOver, work: Work) -> Group:
    """Extend the initial delay if a member joined during it, up to the rebalance time-out; else complete the join."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return group
    if not group.has_new_member or not event.remaining_ms:
        return complete_join(group, work)
    delay_ms = min(work.config.initial_rebalance_delay_ms, event.remaining_ms)
    remaining_ms = max(event.remaining_ms - event.delay_ms, 0)
    work.arm_join(delay_ms, InitialDelayOver(delay_ms, remaining_ms))
    return replace(group, has_new_member=False)


def complete_if_all_joined(group: Group, work: Work) -> Group:
    """Begin the next generation if all members have joined; the initial rebalance ends with its delay instead."""
    preparing = group.state is GroupState.PREPARING_REBALANCE
    if preparing and not group.is_initial_rebalance and group.all_joined:
        return complete_join(group, work)
    return group


def complete_join(group: Group, work: Work) -> Group:
    """Begin the next generation with the members that have joined, and with all static members."""
    work.disarm_join()
    absent = [key for key, member in group.members.items() if not member.awaiting_join and member.instance_id is None]
    group = remove_members(group, dict.fromkeys(absent), work)
    group = _with_joined_leader(group)
    if group.members and not _leader_has_joined(group):
        # No member has joined and only static ones are left: wait until one rejoins or its session expires.
        work.arm_join(group.rebalance_timeout_ms, JoinDeadline())
        return group
    group = replace(
        group,
        generation=group.generation + 1,
        protocol_name=select_protocol(group) if group.members else None,
        is_initial_rebalance=False,
        has_new_member=False,
    )
    group = replace(group, subscribed_topics=subscribed_topics(group))
    if not group.members:
        group = replace(advance(group, GroupState.EMPTY, work.now_ms), pending_sync=frozenset())
        work.store = group
        return group
    return _begin_generation(advance(group, GroupState.COMPLETING_REBALANCE, work.now_ms), work)


def _begin_generation(group: Group, work: Work) -> Group:
    for member in group.members.values():
        if member.awaiting_join:
            work.complete(member.member_id, join_reply(group, member.member_id))
        work.arm_session(member.member_id, member.session_timeout_ms)
    work.arm_sync(group.rebalance_timeout_ms, group.generation)
    members = {key: replace(member, awaiting_join=False, is_new=False) for key, member in group.members.items()}
    return replace(group, members=members, pending_sync=frozenset(members))


def _leader_has_joined(group: Group) -> bool:
    return group.leader_id is not None and group.members[group.leader_id].awaiting_join


def _with_joined_leader(group: Group) -> Group:
    if group.leader_id is None or _leader_has_joined(group):
        return group
    for member in group.members.values():
        if member.awaiting_join:
            return replace(group, leader_id=member.member_id)
    return group


def join_reply(group: Group, member_id: str) -> JoinReply:
    """Return the JoinGroup reply of a member of the current generation; only the leader's lists the members."""
    return JoinReply(
        ErrorCode.NONE,
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id or "",
        members=joined_members(group) if member_id == group.leader_id else (),
    )


def joined_members(group: Group) -> tuple[JoinedMember, ...]:
    """Return the members with their metadata for the chosen protocol, as the leader gets them."""
    assert group.protocol_name is not None
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    )


def propagate_assignments(group: Group, assignments: dict[str, bytes], error: ErrorCode, work: Work) -> Group:
    """Give every member its assignment (empty if there is none), and answer the waiting SyncGroup requests."""
    failed = error != ErrorCode.NONE
    members: dict[str, Member] = {}
    for member_id, member in group.members.items():
        assignment = assignments.get(member_id, b"")
        if member.awaiting_sync:
            protocol = (None, None) if failed else (group.protocol_type, group.protocol_name)
            work.complete(member_id, SyncReply(error, *protocol, assignment))
            work.arm_session(member_id, member.session_timeout_ms)
        members[member_id] = replace(member, assignment=assignment, awaiting_sync=False)
    return replace(group, members=members)


def sync_deadline(group: Group, event: SyncDeadline, work: Work) -> Group:
    """Remove the members that have not sent SyncGroup in time, and rebalance."""
    if event.generation != group.generation or not group.pending_sync:
        return group
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return group
    group = remove_members(group, dict.fromkeys(sorted(group.pending_sync)), work)
    return prepare_rebalance(group, work)


def remove_members(group: Group, member_ids: Collection[str], work: Work) -> Group:
    """Remove members; their waiting requests get UNKNOWN_MEMBER_ID, so that a live client joins again."""
    for member_id in member_ids:
        member = group.members.get(member_id)
        if member is not None and member.awaiting_join:
            work.complete(member_id, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID))
        if member is not None and member.awaiting_sync:
            # Unlike Kafka: Kafka never answers the SyncGroup of a removed member.
            work.complete(member_id, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))
        work.disarm_session(member_id)
    return without(group, member_ids)


def supports(group: Group, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
    """Whether a member with these protocols can join the group: all members must support one of them."""
    if group.state is GroupState.EMPTY:
        return bool(protocol_type and protocols)
    return group.protocol_type == protocol_type and any(_known_to_all(group, name) for name, _ in protocols)


def _known_to_all(group: Group, name: str) -> bool:
    return all(any(known == name for known, _ in member.protocols) for member in group.members.values())


def select_protocol(group: Group) -> str:
    """Return the protocol with the most votes: each member votes for its first one that all members support."""
    votes: dict[str, int] = {}
    candidates: dict[str, bool] = {}
    for member in group.members.values():
        for name, _ in member.protocols:
            if name not in candidates:
                candidates[name] = _known_to_all(group, name)
            if candidates[name]:
                votes[name] = votes.get(name, 0) + 1
                break
    # Unlike Kafka: of two protocols with equal votes, the one named first wins; Kafka takes either (the order
    # of a hash map).
    return max(votes, key=votes.__getitem__)


def add_member(group: Group, member: Member, protocol_type: str) -> Group:
    """Add a member that has joined for the first time; it becomes the leader if there is none."""
    assert member.member_id not in group.members
    assert not group.members or group.protocol_type == protocol_type
    is_initial = group.state is GroupState.PREPARING_REBALANCE and group.is_initial_rebalance
    return replace(
        with_member(group, member),
        protocol_type=protocol_type,
        leader_id=group.leader_id or member.member_id,
        pending_join=group.pending_join - {member.member_id},
        has_new_member=group.has_new_member or is_initial,
    )
