"""DeleteAcls, key 31, versions 1-3: deletes no ACLs, as there is no authorizer.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.requests.no_acls import NO_AUTHORIZER, has_unknown
from stuntbroker.broker.requests.slices import ELEMENT_COST, RESPONSE_ALREADY_SENT, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsRequest
from stuntbroker.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests

KEY: Final = 31
VERSIONS = range(1, 4)


def handle(connection: Asking[HasLongRequests], request: DeleteAclsRequest, version: int) -> DeleteAclsResponse | None:
    """Answer that there is no authorizer. None when the response comes later, or the connection is closed."""
    response: DeleteAclsResponse | None = run_in_slices(connection, _each(connection, request))
    return response


def _each(connection: Asking[HasLongRequests], request: DeleteAclsRequest) -> Steps:
    for each in request.filters:
        yield ELEMENT_COST
        if has_unknown(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            connection.fail("acl_unknown", api_key=KEY)
            return RESPONSE_ALREADY_SENT
    disabled = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER, [])
    return DeleteAclsResponse(0, [disabled] * len(request.filters))
