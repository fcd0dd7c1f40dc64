"""FindCoordinator, key 10, versions 0-6: the coordinator of a group or a transactional id.

v1 key type. v3 flexible. v4 several keys. v6 share groups, which are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from stuntbroker.protocol.request_values import OF_GROUP, OF_TRANSACTION
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from stuntbroker.protocol.versions import SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasNodes, HasTopics

    class Uses(HasLongRequests, HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 10
VERSIONS = range(0, 7)


def handle(request: Asking[Uses], body: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse | None:
    """Return the coordinators of groups or transactional ids; None when the response comes later."""
    if version >= SEVERAL_FROM[KEY]:
        return run_in_slices(request, _steps(request, body))
    coordinator = _find(request, body.key_type, body.key)
    return FindCoordinatorResponse(
        0,
        coordinator.error_code,
        coordinator.error_message or "NONE",
        coordinator.node_id,
        coordinator.host,
        coordinator.port,
    )


def _steps(request: Asking[Uses], body: FindCoordinatorRequest) -> Steps[FindCoordinatorResponse]:
    coordinators = []
    for key in body.coordinator_keys:
        yield ELEMENT_COST
        coordinators.append(_find(request, body.key_type, key))
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(request: Asking[Uses], key_type: int, key: str) -> Coordinator:
    if key_type not in (OF_GROUP, OF_TRANSACTION):
        return Coordinator(
            key, -1, "", -1, ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not served"
        )
    broker = request.broker
    topic = broker.topics.internal_topic(OFFSETS if key_type == OF_GROUP else TXN_STATE)
    leader = coordinator_of(topic, key).leader
    if leader == NO_LEADER:
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    endpoint = broker.nodes.endpoint(leader, request.connection)
    return Coordinator(key, leader, endpoint.host, endpoint.port, ErrorCode.NONE, "")
