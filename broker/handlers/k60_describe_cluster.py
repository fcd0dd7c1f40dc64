"""DescribeCluster, key 60, versions 0-2: the nodes that are up. v1 endpoint type. v2 fenced brokers, which are stopped nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.protocol.acls import EVERYTHING_ON, OPERATIONS_NOT_REQUESTED, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from stuntbroker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasClusterId, HasNodes

    class Uses(HasClusterId, HasNodes, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 60
VERSIONS = range(0, 3)
BROKERS, CONTROLLERS = 1, 2


def handle(request: Asking[Uses], body: DescribeClusterRequest, version: int) -> DescribeClusterResponse:
    """Describe the nodes."""
    broker = request.broker
    if body.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if body.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {body.endpoint_type}",
        )
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes.controller,
        brokers=[
            DescribeClusterBroker(*broker.nodes.endpoint(node.id, request.connection), not node.is_up)
            for node in broker.nodes.by_id.values()
            if node.is_up or body.include_fenced_brokers
        ],
        cluster_authorized_operations=(
            EVERYTHING_ON[Resource.CLUSTER] if body.include_cluster_authorized_operations else OPERATIONS_NOT_REQUESTED
        ),
    )
