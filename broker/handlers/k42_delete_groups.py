"""DeleteGroups, key 42, versions 0-2.

Deletes empty consumer groups with all their offsets.
v1 as v0. v2 flexible. (v3, with messages, came after Kafka 4.3.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import Steps, run_in_slices
from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests
    from stuntbroker.groups.coordinator import GroupCoordinator

    class Uses(HasGroups, HasLongRequests, Protocol):
        """Parts of the broker that this module uses."""


GROUP_DELETION_COST: Final = 4
"""Cost of deleting a group, in slice units."""
KEY = 42
VERSIONS = range(3)


def handle(request: Asking[Uses], body: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse | None:
    """Delete groups with their offsets; None when the response comes later."""
    return run_in_slices(request, _steps(request.broker.groups, body))


def _steps(groups: GroupCoordinator, body: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse]:
    results = []
    for name in dict.fromkeys(body.groups_names):  # A repeated group is deleted once.
        results.append(DeletableGroupResult(name, groups.delete_group(name)))
        yield GROUP_DELETION_COST
    return DeleteGroupsResponse(results=results)
