"""ListPartitionReassignments, key 46, version 0: lists none, as a reassignment completes immediately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from stuntbroker.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking

KEY: Final = 46
VERSIONS = range(0, 1)


def handle(
    request: Asking[object], body: ListPartitionReassignmentsRequest, version: int
) -> ListPartitionReassignmentsResponse:
    """Answer that no partition is being reassigned."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None)
