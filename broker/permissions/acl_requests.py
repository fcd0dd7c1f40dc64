"""Common parts of the three ACL requests."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.acls import ALLOW, PREFIXED, UNKNOWN, Acl, AclFilter, Operation, Resource

NO_AUTHORIZER: Final = "No Authorizer is configured."
"""Message of the refused requests of the APIs that change ACLs."""
NO_AUTHORIZER_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"


def has_unknown(*codes: int) -> bool:
    """Return whether a code of an ACL or an ACL filter is UNKNOWN; Kafka closes the connection then."""
    return UNKNOWN in codes


def unknown_field(acl: Acl | AclFilter) -> str:
    """Return Kafka's name of the first field of an ACL, or of a filter, whose code nobody knows; empty without one."""
    codes = {
        "resourceType": (acl.resource_type, Resource.USER),
        "patternType": (acl.pattern_type, PREFIXED),
        "operation": (acl.operation, Operation.TWO_PHASE_COMMIT),
        "permissionType": (acl.permission_type, ALLOW),
    }
    return next((name for name, (code, code_max) in codes.items() if not UNKNOWN < code <= code_max), "")
