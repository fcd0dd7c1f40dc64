"""DescribeAcls, key 29, versions 1-3: describes the ACLs that match a filter.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.permissions.acl_requests import NO_AUTHORIZER_TO_DESCRIBE, has_unknown
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.acls import Acl, AclFilter
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_acls_request import DescribeAclsRequest
from stuntbroker.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasAcls, HasAuthorizer, HasLongRequests

    class Uses(HasAcls, HasAuthorizer, HasLongRequests, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 29
VERSIONS = range(1, 4)


def handle(request: Asking[Uses], body: DescribeAclsRequest, version: int) -> DescribeAclsResponse | None:
    """Describe ACLs; None when the response comes later, or the connection is closed."""
    wanted = body.resource_type_filter, body.pattern_type_filter, body.operation, body.permission_type
    if has_unknown(*wanted):
        request.fail("acl_refused", api_key=KEY)
        return None
    if not request.broker.authorizer.checks_every_request:
        return DescribeAclsResponse(0, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_TO_DESCRIBE, [])
    return run_in_slices(request, _matching(request.broker, body))


def _matching(broker: Uses, body: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
    wanted = AclFilter(*(getattr(body, name) for name in body.FIELDS))
    matching = []
    for acl in list(broker.acls):
        yield ELEMENT_COST // 2
        if wanted.matches(acl):
            matching.append(acl)
    matching.sort(key=_resource)
    return DescribeAclsResponse(
        0,
        ErrorCode.NONE,
        "",
        [
            DescribeAclsResource(
                *resource,
                [AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in acls],
            )
            for resource, acls in groupby(matching, _resource)
        ],
    )


def _resource(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type
