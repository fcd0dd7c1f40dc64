"""Decisions by ACLs, with the rules of Kafka's StandardAuthorizer (KIP-801)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.metadata.acls import Acls
from stuntbroker.broker.permissions.authorizer import Authorizer, Client, Principal
from stuntbroker.protocol.acls import ALLOW, DENY, EVERY, LITERAL, PREFIXED, Acl, Operation, Resource
from stuntbroker.protocol.addresses import java_address

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig

EVERYBODY: Final = "User:*"
SUPER_USERS_SEPARATOR: Final = ";"
IMPLYING: Final = {
    Operation.DESCRIBE: frozenset({
        Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER,
    }),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}  # fmt: skip
"""Operation -> operations whose permission includes it. A denial includes no other operation."""
NAME_OF_NO_RESOURCE: Final = "hardcode"


class AclAuthorizer:
    """Allows what an ACL allows and none denies; super users may do everything."""

    checks_every_request = True

    def __init__(self, config: BrokerConfig, acls: Acls, configured: Authorizer) -> None:
        """`configured`: must also allow each operation."""
        self._acls = acls
        self._configured = configured
        names = config["super.users"].split(SUPER_USERS_SEPARATOR)
        self._super_users = frozenset(name.strip() for name in names if name.strip())
        self._allows_without_acl: bool = config["allow.everyone.if.no.acl.found"]

    def allows(self, client: Client, operation: Operation, resource: Resource, name: str) -> bool:
        """As Authorizer."""
        if not self._configured.allows(client, operation, resource, name):
            return False
        if self.is_super_user(client.principal):
            return True
        return self._decide(self._acls.about(resource, name), client, operation)

    def is_super_user(self, principal: Principal) -> bool:
        """As Authorizer."""
        return str(principal) in self._super_users

    def _decide(self, about: list[Acl], client: Client, operation: Operation) -> bool:
        """Decide by the ACLs for one resource: a denial has precedence, and without an ACL the default counts."""
        own = _for_client(about, client)
        if any(acl.permission_type == DENY and acl.operation in (operation, Operation.ALL) for acl in own):
            return False
        implying = IMPLYING.get(operation, {operation})
        if any(acl.permission_type == ALLOW and acl.operation in (*implying, Operation.ALL) for acl in own):
            return True
        return self._allows_without_acl and not about

    def allows_some(self, client: Client, operation: Operation, resource: Resource) -> bool:
        """As Authorizer, with the rule of Kafka's `authorizeByResourceType` (KIP-679).

        A denial counts if it covers the whole pattern of a permission: of the permission for the prefix `ab`, only one for the
        prefix `a` or `ab` does.
        """
        if self.allows(client, operation, resource, NAME_OF_NO_RESOURCE):
            return True
        own = _for_client(self._acls.of_type(resource), client)
        relevant = [acl for acl in own if acl.operation in (operation, Operation.ALL)]
        denied = {(acl.pattern_type, acl.resource_name) for acl in relevant if acl.permission_type == DENY}
        if (LITERAL, EVERY) in denied:
            return False
        allowed = [(acl.pattern_type, acl.resource_name) for acl in relevant if acl.permission_type == ALLOW]
        return any(pattern == (LITERAL, EVERY) or not _is_covered(pattern, denied) for pattern in allowed)


def _for_client(acls: list[Acl], client: Client) -> list[Acl]:
    if not acls:
        return []
    principals, hosts = (str(client.principal), EVERYBODY), (java_address(client.host), EVERY)
    return [acl for acl in acls if acl.principal in principals and acl.host in hosts]


def _is_covered(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    kind, name = pattern
    if kind == LITERAL and pattern in denied:
        return True
    return any((PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
