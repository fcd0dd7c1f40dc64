"""DeleteAcls, key 31, versions 1-3: deletes the ACLs that match filters.

v2 flexible. v3 the resource type User, which makes no difference here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.permissions.acl_requests import NO_AUTHORIZER, has_unknown, unknown_field
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.acls import Acl, AclFilter
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsRequest
from stuntbroker.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasAcls, HasAuthorizer, HasEvents, HasLongRequests, HasSyncer

    class Uses(HasAcls, HasAuthorizer, HasEvents, HasLongRequests, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 31
VERSIONS = range(1, 4)


def handle(request: Asking[Uses], body: DeleteAclsRequest, version: int) -> DeleteAclsResponse | None:
    """Delete the ACLs of each filter; None when the response comes later, or the connection is closed."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: DeleteAclsRequest) -> Steps[DeleteAclsResponse | None]:
    broker = request.broker
    for each in body.filters:
        yield ELEMENT_COST
        if has_unknown(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            request.fail("acl_refused", api_key=KEY)
            return None
    if not broker.authorizer.checks_every_request:
        disabled = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER, [])
        return DeleteAclsResponse(0, [disabled] * len(body.filters))
    results = []
    deleted_acls: dict[Acl, DeleteAclsMatchingAcl] = {}  # Listed by each filter that matches, as in Kafka.
    for each in body.filters:
        wanted = AclFilter(*(getattr(each, name) for name in each.FIELDS))
        if unknown := unknown_field(wanted):
            what = "patternFilter" if unknown in ("resourceType", "patternType") else "entryFilter"
            results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, f"Unknown {what}.", []))
            continue
        deleted = []
        deleted += [match for acl, match in deleted_acls.items() if wanted.matches(acl)]
        yield ELEMENT_COST + len(deleted_acls) // 50
        for acl in list(broker.acls):
            yield ELEMENT_COST // 2
            if acl not in deleted_acls and wanted.matches(acl) and (match := _delete(broker, acl)) is not None:
                deleted_acls[acl] = match
                deleted.append(match)
                yield cost_of_change(broker.syncer is not None, 1)
        results.append(DeleteAclsFilterResult(ErrorCode.NONE, None, deleted))
    return DeleteAclsResponse(0, results)


def _delete(broker: Uses, acl: Acl) -> DeleteAclsMatchingAcl | None:
    """Delete an ACL; return None if another request has deleted it meanwhile."""
    error, message = ErrorCode.NONE, None
    try:
        if not broker.acls.remove(acl):
            return None
        broker.events.info("acl_deleted", acl=acl.describe())
    except StorageError as fault:
        error, message = ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
    return DeleteAclsMatchingAcl(error, message, *acl)
