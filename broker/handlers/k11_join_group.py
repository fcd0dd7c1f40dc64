"""JoinGroup, key 11, versions 0-9.

Joins a consumer group, or its next generation. The response is sent when the other members have joined. v1
rebalance time-out. v2 throttle time. v4 a new dynamic member gets MEMBER_ID_REQUIRED and an id, and joins again
with the id. v5 instance id. v6 flexible. v7 protocol type in the response, whose protocol name may be null.
v8 reason. v9 SkipAssignment for a static leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stuntbroker.groups.classic.requests import JoinGroup, JoinReply
from stuntbroker.groups.classic.state import Protocol
from stuntbroker.protocol.addresses import java_address
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest
from stuntbroker.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from stuntbroker.protocol.versions import NO_PROTOCOL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups

KEY = 11
VERSIONS = range(10)


def handle(request: Asking[HasGroups], body: JoinGroupRequest, version: int) -> None:
    """Join a member to its group; the response comes when the rebalance is complete."""
    join = JoinGroup(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.client_id,
        client_host=f"/{java_address(request.host)}",  # As Java prints an address without a host name.
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in body.protocols),
        requires_member_id=version >= 4,
        skips_assignment=version >= 9,
    )
    request.broker.groups.join(join, lambda reply: request.reply(_response(reply, version)))


def _response(reply: JoinReply, version: int) -> JoinGroupResponse:
    name = reply.protocol_name
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name="" if name is None and version < NO_PROTOCOL_FROM else name,
        leader=reply.leader_id,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[JoinGroupResponseMember(*member) for member in reply.members],
    )
