"""DeleteAcls, key 31, versions 1-3: there is no authorizer, so that there are none to delete.

v2 flexible. v3 the resource type of users, which is not looked at here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsRequest
from stuntbroker.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection

KEY: Final = 31
VERSIONS = range(1, 4)
UNKNOWN: Final = 0


def handle(connection: Connection, request: DeleteAclsRequest, version: int) -> DeleteAclsResponse | None:
    """Answer that there is no authorizer."""
    for each in request.filters:
        if UNKNOWN in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            connection.fail("acl_unknown", api_key=KEY)
            return None
    disabled = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", [])
    return DeleteAclsResponse(0, [disabled] * len(request.filters))
