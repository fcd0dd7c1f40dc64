"""What a classic group allows to be done with its offsets."""

from __future__ import annotations

from stuntbroker.groups.classic.membership import member_error
from stuntbroker.groups.classic.state import CONSUMER_PROTOCOL, Group, GroupState
from stuntbroker.groups.offsets import Expiry
from stuntbroker.protocol.errors import ErrorCode


def commit_error(
    group: Group, member_id: str, instance_id: str | None, generation: int, transactional: bool
) -> ErrorCode:
    """Return the error of an offset commit; NONE if the sender may commit."""
    state = group.state
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is GroupState.EMPTY:
        return ErrorCode.NONE  # The sender is an administrator, or a consumer with manually assigned partitions.
    if generation >= 0 or member_id or instance_id is not None:
        error = member_error(group, member_id, instance_id)
        if error != ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and state is GroupState.COMPLETING_REBALANCE:
        # The member has joined the new generation. In a transaction, the state of the group does not matter.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def offset_delete_error(group: Group | None) -> ErrorCode:
    """Return the error if offsets of the group cannot be deleted, else NONE."""
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def group_delete_error(group: Group | None) -> ErrorCode:
    """Return the error if the group cannot be deleted, else NONE."""
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def expiry_of(group: Group) -> Expiry | None:
    """Return how the group's offsets expire now; None if they do not."""
    is_simple = group.protocol_type is None
    is_empty = group.state is GroupState.EMPTY
    is_known = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL
    if not (is_simple or is_empty or (is_known and group.subscribed_topics is not None)):
        return None
    return Expiry(None if is_simple or not is_empty else group.entered_at_ms, group.is_subscribed_to)
