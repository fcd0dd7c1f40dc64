"""DescribeGroups, key 15, versions 0-6.

Describes the state and the members of consumer groups.
v1 throttle time. v3 authorized operations. v4 instance ids. v5 flexible. v6 GROUP_ID_NOT_FOUND and
a message for an unknown group; before v6, a group in state Dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.groups.classic.state import Group, GroupState
from stuntbroker.protocol.acls import EVERYTHING_ON, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from stuntbroker.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests

    class Uses(HasGroups, HasLongRequests, Protocol):
        """Parts of the broker that this module uses."""


KEY = 15
VERSIONS = range(7)

MEMBERS_PER_UNIT: Final = 5
"""Described members that cost one slice unit."""
REPEATED_MEMBERS_MAX: Final = 10
"""Maximum number of members of a group that is described as often as it is requested."""


def handle(request: Asking[Uses], body: DescribeGroupsRequest, version: int) -> DescribeGroupsResponse | None:
    """Describe groups with their members; None when the response comes later."""
    return run_in_slices(request, _steps(request, body, version))


def _steps(request: Asking[Uses], body: DescribeGroupsRequest, version: int) -> Steps[DescribeGroupsResponse]:
    described = []
    large: set[str] = set()
    for group_id in body.groups:
        # Unlike Kafka: a large group that is requested twice is described once; the response could have gigabytes.
        if group_id in large:
            continue
        group = request.broker.groups.group(group_id)
        shown = _missing(group_id, version) if group is None else _describe(group)
        if body.include_authorized_operations and not shown.error_code:
            shown.authorized_operations = EVERYTHING_ON[Resource.GROUP]
        described.append(shown)
        if len(shown.members) > REPEATED_MEMBERS_MAX:
            large.add(group_id)
        yield ELEMENT_COST + len(shown.members) // MEMBERS_PER_UNIT
    return DescribeGroupsResponse(groups=described)


def _missing(group_id: str, version: int) -> DescribedGroup:
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= 6:
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = f"Group {group_id} not found."
    return dead


def _describe(group: Group) -> DescribedGroup:
    # As in Kafka, only a Stable group shows its protocol.
    protocol_name = (group.protocol_name or "") if group.state is GroupState.STABLE else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name,
        members=[
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol_name) if group.state is GroupState.STABLE else b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    )
