"""SyncGroup, key 14, versions 0-5.

The group leader sends the assignment of all members; each member gets its own part when the group has it.
v1 throttle time. v3 instance id. v4 flexible. v5 protocol type and name, which are required and must match the
group's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stuntbroker.groups.classic.requests import SyncGroup, SyncReply
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest
from stuntbroker.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups

KEY = 14
VERSIONS = range(6)


def handle(request: Asking[HasGroups], body: SyncGroupRequest, version: int) -> SyncGroupResponse | None:
    """Give a member its assignment: the response comes when the group has it. An incomplete request is refused at once."""
    if version >= 5 and (body.protocol_type is None or body.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    sync = SyncGroup(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        generation=body.generation_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple((given.member_id, given.assignment) for given in body.assignments),
    )
    request.broker.groups.sync(sync, lambda reply: request.reply(_response(reply)))
    return None


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
