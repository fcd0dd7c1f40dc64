"""ListConfigResources, key 74, versions 0-1: the resources that can have configuration.

v0 lists client metrics subscriptions only. v1 has a list of resource types; an empty list means all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from stuntbroker.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasNodeId, HasTopics

    class Uses(HasLongRequests, HasNodeId, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 74
VERSIONS = range(0, 2)
TYPES: Final = frozenset(ResourceType)


def handle(request: Asking[Uses], body: ListConfigResourcesRequest, version: int) -> ListConfigResourcesResponse | None:
    """List the resources that have a configuration; None when the response comes later."""
    types = frozenset(body.resource_types) or TYPES
    if version == 0:
        types = frozenset({ResourceType.CLIENT_METRICS})
    if not types <= TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return run_in_slices(request, _list(request.broker, types))


def _list(broker: Uses, types: frozenset[int]) -> Steps[ListConfigResourcesResponse]:
    """List resources by type; groups and client metrics are never listed, as they have no configuration here."""
    node = str(broker.node_id)
    resources = [
        ConfigResource(node, kind) for kind in (ResourceType.BROKER_LOGGER, ResourceType.BROKER) if kind in types
    ]
    if ResourceType.TOPIC in types:
        for name in list(broker.topics.by_name):
            yield ELEMENT_COST
            resources.append(ConfigResource(name, ResourceType.TOPIC))
    return ListConfigResourcesResponse(config_resources=resources)
