"""CreateAcls, key 30, versions 1-3: creates no ACLs, as there is no authorizer.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.requests.no_acls import NO_AUTHORIZER, has_unknown
from stuntbroker.broker.requests.slices import ELEMENT_COST, RESPONSE_ALREADY_SENT, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_acls_request import CreateAclsRequest
from stuntbroker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests

KEY: Final = 30
VERSIONS = range(1, 4)


def handle(connection: Asking[HasLongRequests], request: CreateAclsRequest, version: int) -> CreateAclsResponse | None:
    """Refuse every ACL: there is no authorizer. None when the response comes later, or the connection is closed."""
    response: CreateAclsResponse | None = run_in_slices(connection, _each(connection, request))
    return response


def _each(connection: Asking[HasLongRequests], request: CreateAclsRequest) -> Steps:
    for new in request.creations:
        yield ELEMENT_COST
        if has_unknown(new.resource_type, new.resource_pattern_type, new.operation, new.permission_type):
            connection.fail("acl_unknown", api_key=KEY)
            return RESPONSE_ALREADY_SENT
    disabled = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return CreateAclsResponse(0, [disabled] * len(request.creations))
