"""ListGroups, key 16, versions 0-5.

Lists the groups that the node coordinates.
v1 throttle time. v3 flexible. v4 states and a filter by state. v5 types and a filter by type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.groups.coordinator import GROUP_TYPE
from stuntbroker.protocol.messages.list_groups_request import ListGroupsRequest
from stuntbroker.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from stuntbroker.protocol.topic_names import OFFSETS

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasNodes, HasTopics

    class Uses(HasGroups, HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY = 16
VERSIONS = range(6)


def handle(request: Asking[Uses], body: ListGroupsRequest, version: int) -> ListGroupsResponse:
    """List the groups with the requested states and types."""
    broker, node_id = request.broker, request.listener.node_id
    groups = broker.groups.list_groups(body.states_filter, body.types_filter)
    if broker.nodes.are_many:
        topic = broker.topics.internal_topic(OFFSETS)
        groups = [group for group in groups if coordinator_of(topic, group.group_id).leader == node_id]
    return ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value, GROUP_TYPE) for group in groups
        ]
    )
