"""CreateAcls, key 30, versions 1-3: creates ACLs.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.permissions.acl_requests import NO_AUTHORIZER, has_unknown, unknown_field
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.acls import ANY, CLUSTER_NAME, MATCH, Acl, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_acls_request import CreateAclsRequest
from stuntbroker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasAcls, HasAuthorizer, HasEvents, HasLongRequests, HasSyncer

    class Uses(HasAcls, HasAuthorizer, HasEvents, HasLongRequests, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 30
VERSIONS = range(1, 4)


def handle(request: Asking[Uses], body: CreateAclsRequest, version: int) -> CreateAclsResponse | None:
    """Create each ACL, or refuse it; None when the response comes later, or the connection is closed."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: CreateAclsRequest) -> Steps[CreateAclsResponse | None]:
    broker = request.broker
    for new in body.creations:
        yield ELEMENT_COST
        if has_unknown(new.resource_type, new.resource_pattern_type, new.operation, new.permission_type):
            request.fail("acl_refused", api_key=KEY)
            return None
    if not broker.authorizer.checks_every_request:
        disabled = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return CreateAclsResponse(0, [disabled] * len(body.creations))
    acls = [Acl(*(getattr(new, name) for name in new.FIELDS)) for new in body.creations]
    if any(map(_is_filter, acls)):  # As in Kafka, one of them fails the whole request.
        failed = AclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        return CreateAclsResponse(0, [failed] * len(acls))
    results = []
    for acl in acls:
        message = _problem(acl)
        results.append(AclCreationResult(ErrorCode.INVALID_REQUEST, message) if message else _create(broker, acl))
        yield cost_of_change(broker.syncer is not None, 1)
    return CreateAclsResponse(0, results)


def _is_filter(acl: Acl) -> bool:
    """Return whether a code describes ACLs, such as ANY, and is not that of an ACL."""
    return ANY in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) or acl.pattern_type == MATCH


def _problem(acl: Acl) -> str:
    """Return why an ACL is invalid; empty if it is valid."""
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if unknown := unknown_field(acl):
        return f"Invalid {unknown} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the "
            "principal name)"
        )
    return ""


def _create(broker: Uses, acl: Acl) -> AclCreationResult:
    try:
        if broker.acls.add(acl):
            broker.events.info("acl_created", acl=acl.describe())
    except StorageError as fault:
        return AclCreationResult(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
    return AclCreationResult(ErrorCode.NONE, "")
