"""Heartbeat, key 12, versions 0-4.

Keeps a member of a consumer group alive, and returns whether it must rejoin.
v1 throttle time. v3 instance id. v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups

KEY: Final = 12
VERSIONS: Final = range(5)


def handle(request: Asking[HasGroups], body: HeartbeatRequest, version: int) -> HeartbeatResponse:
    """Keep a member of a group alive."""
    error = request.broker.groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return HeartbeatResponse(error_code=error)
