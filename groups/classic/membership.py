"""Rules of group membership: how a group handles each request and each time-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from stuntbroker.groups.classic.rebalance import (
    Work,
    add_member,
    complete_if_all_joined,
    complete_join,
    initial_delay_over,
    join_reply,
    prepare_rebalance,
    propagate_assignments,
    rebalance_or_complete,
    remove_members,
    select_protocol,
    supports,
    sync_deadline,
)
from stuntbroker.groups.classic.requests import (
    Decision,
    InitialDelayOver,
    JoinDeadline,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    Leaver,
    LeaveReply,
    Loaded,
    Request,
    SessionExpired,
    SyncDeadline,
    SyncGroup,
    SyncReply,
)
from stuntbroker.groups.classic.state import Group, GroupState, Member, advance, with_member, without
from stuntbroker.groups.config import GroupConfig
from stuntbroker.protocol.errors import ErrorCode


def decide(group: Group, request: Request, now_ms: int, config: GroupConfig) -> Decision:
    """Return the decision on a request or timer event. The entry to all rules but those of `heartbeat`; deterministic."""
    work = Work(now_ms, config)
    after = _apply(group, request, work)
    return Decision(after, work.store, tuple(work.effects))


def _apply(group: Group, request: Request, work: Work) -> Group:
    match request:
        case JoinGroup():
            return _join(group, request, work)
        case SyncGroup():
            return _sync(group, request, work)
        case LeaveGroup():
            return _leave_group(group, request, work)
        case SessionExpired():
            return _session_expired(group, request.member_id, work)
        case InitialDelayOver():
            return initial_delay_over(group, request, work)
        case JoinDeadline():
            return complete_join(group, work) if group.state is GroupState.PREPARING_REBALANCE else group
        case SyncDeadline():
            return sync_deadline(group, request, work)
        case Loaded():
            return _loaded(group, work)
        case _:
            assert_never(request)


def member_error(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return NONE if the group has a member with this id (and this instance id, if given), else the error."""
    return _identity_error(group.members.get(member_id), instance_id, group.static_member_id)


def _identity_error(
    member: Member | None, instance_id: str | None, static_member_id: Callable[[str], str | None]
) -> ErrorCode:
    if member is not None and (instance_id is None or member.instance_id == instance_id):
        return ErrorCode.NONE
    if instance_id is not None and static_member_id(instance_id) is not None:
        return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.UNKNOWN_MEMBER_ID


def heartbeat(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Return the error of a Heartbeat; NONE and REBALANCE_IN_PROGRESS keep the member alive."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = member_error(group, member_id, instance_id)
    if error != ErrorCode.NONE:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# JoinGroup


def _join(group: Group, request: JoinGroup, work: Work) -> Group:
    if not _has_room(group, request.member_id, work.config):
        work.answer(JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return remove_members(group, (request.member_id,), work)
    if group.state is GroupState.DEAD:
        work.answer(JoinReply(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
        return group
    if not supports(group, request.protocol_type, request.protocols):
        work.answer(JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        return group
    if request.member_id:
        return _join_known(group, request, work)
    if request.instance_id is not None:
        return _join_static(group, request, request.instance_id, work)
    if request.requires_member_id:
        member_id = request.new_member_id
        work.arm_session(member_id, request.session_timeout_ms)
        work.answer(JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return replace(group, pending_join=group.pending_join | {member_id})
    return _join_new(group, request, request.new_member_id, work)


def _has_room(group: Group, member_id: str, config: GroupConfig) -> bool:
    member = group.members.get(member_id)
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            # Only members that have joined count, so that a group that is too large leaves out those that
            # join last.
            joined = sum(other.awaiting_join for other in group.members.values())
            return (member is not None and member.awaiting_join) or joined < config.group_size_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member is not None or len(group.members) < config.group_size_max
        case _:
            assert_never(group.state)


def _join_new(group: Group, request: JoinGroup, member_id: str, work: Work) -> Group:
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
        awaiting_join=True,
    )
    group = add_member(group, member, request.protocol_type)
    work.park_join(member_id)
    # A member cannot send heartbeats while its JoinGroup waits. Without a time-out, each retry of a client
    # that disconnected would leave a dead member behind.
    work.arm_session(member_id, work.config.new_member_join_timeout_ms)
    return rebalance_or_complete(group, work)


def _join_static(group: Group, request: JoinGroup, instance_id: str, work: Work) -> Group:
    """Let a static member without a member id join; it replaces the member with the same instance id."""
    old_id = group.static_member_id(instance_id)
    if old_id is None:
        return _join_new(group, request, request.new_member_id, work)
    old_leader_id = group.leader_id or ""
    new_id = request.new_member_id
    group = _replace_static(group, old_id, new_id, work)
    group = _rejoined(group, new_id, request, work)
    match group.state:
        case GroupState.STABLE if select_protocol(group) == group.protocol_name:
            return _keep_assignment(group, request, new_id, old_leader_id, work)
        case GroupState.STABLE:
            return rebalance_or_complete(group, work)
        case GroupState.COMPLETING_REBALANCE:
            # The leader may be computing an assignment for the old member id; the new one would get no
            # partitions.
            return prepare_rebalance(group, work)
        case _:
            return complete_if_all_joined(group, work)


def _replace_static(group: Group, old_id: str, new_id: str, work: Work) -> Group:
    old = group.members[old_id]
    if old.awaiting_join:
        work.complete(old_id, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old_id))
    if old.awaiting_sync:
        work.complete(old_id, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    work.disarm_session(old_id)
    work.arm_session(new_id, old.session_timeout_ms)
    new = replace(old, member_id=new_id, is_new=False, awaiting_join=False, awaiting_sync=False)
    members = {new_id if key == old_id else key: member for key, member in group.members.items()}
    members[new_id] = new
    return replace(
        group,
        members=members,
        leader_id=new_id if group.leader_id == old_id else group.leader_id,
        # Unlike Kafka: Kafka keeps waiting for the SyncGroup of the old member id, which cannot come any more,
        # and rebalances without need after the time-out.
        pending_sync=group.pending_sync - {old_id},
    )


def _keep_assignment(group: Group, request: JoinGroup, member_id: str, old_leader_id: str, work: Work) -> Group:
    """Let a static member rejoin a stable group with its old assignment, without a rebalance."""
    group = with_member(group, replace(group.members[member_id], awaiting_join=False))
    work.store = group
    reply = join_reply(group, member_id)
    if not request.skips_assignment:
        # Before version 9, a client named as leader would compute a new assignment, which no member would receive.
        reply = reply._replace(leader_id=old_leader_id, members=())
    elif member_id == group.leader_id:
        reply = reply._replace(skip_assignment=True)
    work.complete(member_id, reply)
    return group


def _rejoined(group: Group, member_id: str, request: JoinGroup, work: Work) -> Group:
    work.park_join(member_id)
    member = replace(
        group.members[member_id],
        protocols=request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        awaiting_join=True,
    )
    return with_member(group, member)


def _join_known(group: Group, request: JoinGroup, work: Work) -> Group:
    member_id = request.member_id
    if member_id in group.pending_join:
        if request.instance_id is not None:
            work.answer(JoinReply(ErrorCode.UNKNOWN_SERVER_ERROR))  # A pending id belongs to a dynamic member.
            return group
        return _join_new(group, request, member_id, work)
    error = member_error(group, member_id, request.instance_id)
    if error != ErrorCode.NONE:
        work.answer(JoinReply(error, member_id))
        return group
    changed = group.members[member_id].protocols != request.protocols
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            rebalances = True
        case GroupState.COMPLETING_REBALANCE:
            rebalances = changed  # If nothing changed, the member did not receive its reply: it is sent again.
        case GroupState.STABLE:
            # The leader also rejoins when something else changed, such as the partitions of a topic.
            rebalances = changed or member_id == group.leader_id
        case _:
            raise AssertionError(f"{group.group_id}: a member in the state {group.state.name}")
    if rebalances:
        return rebalance_or_complete(_rejoined(group, member_id, request, work), work)
    work.answer(join_reply(group, member_id))
    return group


# SyncGroup


def _sync(group: Group, request: SyncGroup, work: Work) -> Group:
    error = _sync_error(group, request)
    if error != ErrorCode.NONE:
        work.answer(SyncReply(error))
        return group
    member_id = request.member_id
    group = replace(group, pending_sync=group.pending_sync - {member_id})
    if not group.pending_sync:
        work.disarm_sync()
    if group.state is GroupState.STABLE:
        assignment = group.members[member_id].assignment
        work.answer(SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment))
        return group
    work.park_sync(member_id)
    group = with_member(group, replace(group.members[member_id], awaiting_sync=True))
    if member_id != group.leader_id:
        return group
    # Unlike Kafka: if the assignment cannot be stored, only the leader gets an error, and may retry; Kafka
    # fails every waiting member and rebalances.
    group = propagate_assignments(group, dict(request.assignments), ErrorCode.NONE, work)
    work.store = group
    return advance(group, GroupState.STABLE, work.now_ms)


def _sync_error(group: Group, request: SyncGroup) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = member_error(group, request.member_id, request.instance_id)
    if error != ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# LeaveGroup, and members that fail


def _leave_group(group: Group, request: LeaveGroup, work: Work) -> Group:
    if group.state is GroupState.DEAD:
        work.answer(LeaveReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return group
    present = _Present(group)
    leaving: dict[str, None] = {}
    errors = []
    for leaver in request.leavers:
        member_id, error = present.find(leaver)
        errors.append(error)
        if error == ErrorCode.NONE:
            leaving[member_id] = None
            present.remove(member_id)
    group = remove_members(group, leaving, work)
    work.answer(LeaveReply(ErrorCode.NONE, tuple(errors)))
    if ErrorCode.NONE not in errors:
        return group
    match group.state:
        case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
            return rebalance_or_complete(group, work)
        case _:
            return complete_if_all_joined(group, work)


class _Present:
    """Members left in the group while one request removes many, with look-ups in constant time."""

    def __init__(self, group: Group) -> None:
        self._members = dict(group.members)
        self._pending_join = set(group.pending_join)
        self._by_instance_id = {
            member.instance_id: member.member_id
            for member in reversed(list(group.members.values()))
            if member.instance_id is not None
        }

    def find(self, leaver: Leaver) -> tuple[str, ErrorCode]:
        """Return (member id, NONE), or an error when the group has no such member."""
        member_id = leaver.member_id
        if not member_id:
            static_id = None if leaver.instance_id is None else self._by_instance_id.get(leaver.instance_id)
            return ("", ErrorCode.UNKNOWN_MEMBER_ID) if static_id is None else (static_id, ErrorCode.NONE)
        if member_id in self._pending_join:
            return member_id, ErrorCode.NONE
        return member_id, _identity_error(self._members.get(member_id), leaver.instance_id, self._by_instance_id.get)

    def remove(self, member_id: str) -> None:
        self._pending_join.discard(member_id)
        member = self._members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self._by_instance_id.pop(member.instance_id, None)


def _session_expired(group: Group, member_id: str, work: Work) -> Group:
    if member_id in group.pending_join:
        group = without(group, (member_id,))
    else:
        member = group.members.get(member_id)
        if member is None:
            return group
        if not member.is_new and (member.awaiting_join or member.awaiting_sync):
            # A member that waits for a response sends no heartbeats; the response restarts its session.
            return group
        group = remove_members(group, (member_id,), work)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return rebalance_or_complete(group, work)
    # As in Kafka, an expired session also ends the initial delay; a member that leaves does not (`complete_if_all_joined`).
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        return complete_join(group, work)
    return group


def _loaded(group: Group, work: Work) -> Group:
    for member in group.members.values():
        work.arm_session(member.member_id, member.session_timeout_ms)
    if len(group.members) > work.config.group_size_max:
        return prepare_rebalance(group, work)  # The limit was lowered.
    return group
