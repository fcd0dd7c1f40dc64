"""DescribeAcls, key 29, versions 1-3: describes no ACLs, as there is no authorizer.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.requests.no_acls import has_unknown
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_acls_request import DescribeAclsRequest
from stuntbroker.protocol.messages.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking

KEY: Final = 29
VERSIONS = range(1, 4)


def handle(connection: Asking[object], request: DescribeAclsRequest, version: int) -> DescribeAclsResponse | None:
    """Answer that there is no authorizer."""
    wanted = request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    if has_unknown(*wanted):
        connection.fail("acl_unknown", api_key=KEY)
        return None
    return DescribeAclsResponse(0, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker", [])
