"""LeaveGroup, key 13, versions 0-5.

Removes members from a consumer group immediately, without waiting for their session time-outs. v1 throttle time.
v3 several members, static ones by instance id alone, each with its own error code; before v3, the error of the
only member is the top-level error. v4 flexible. v5 reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.groups.classic.requests import Leaver
from stuntbroker.protocol.messages.leave_group_request import LeaveGroupRequest
from stuntbroker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests

    class Uses(HasGroups, HasLongRequests, Protocol):
        """Parts of the broker that this module uses."""


KEY = 13
VERSIONS = range(6)


def handle(request: Asking[Uses], body: LeaveGroupRequest, version: int) -> LeaveGroupResponse | None:
    """Remove members from a group; None when the response comes later."""
    if version < 3:
        reply = request.broker.groups.leave_group(body.group_id, [Leaver(body.member_id, None)])
        return LeaveGroupResponse(error_code=reply.error or reply.members[0])
    return run_in_slices(request, _all_at_once(request, body))


def _all_at_once(request: Asking[Uses], body: LeaveGroupRequest) -> Steps[LeaveGroupResponse]:
    """Remove all members in one step, and build the response in slices."""
    leavers = [Leaver(member.member_id, member.group_instance_id) for member in body.members]
    reply = request.broker.groups.leave_group(body.group_id, leavers)
    yield ELEMENT_COST * len(leavers)
    members = []
    for leaver, error in zip(leavers, reply.members, strict=False):  # There are none when the whole request failed.
        members.append(MemberResponse(*leaver, error))
        yield ELEMENT_COST
    return LeaveGroupResponse(error_code=reply.error, members=members)
