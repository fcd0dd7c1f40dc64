"""Authorization: who a client is, what can be permitted, and the interface for all permission checks.

A broker has one authorizer, and a connection has one principal. Operations and resource types have Kafka's numbers
(`AclOperation`, `ResourceType`). Without `authorizer.class.name`, only two-phase commit is checked: `ConfiguredAuthorizer` denies
it to the transactional ids in `stuntbroker.deny.two.phase.commit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stuntbroker.protocol.acls import OPERATIONS_ON, Operation, Resource, bit_field

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig


class Principal(NamedTuple):
    """Principal of a client."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Principal of all clients of a listener without authentication, as in Kafka."""


class Client(Protocol):
    """Who asks for a permission, and from where."""

    @property
    def principal(self) -> Principal:
        """Principal of the client."""

    @property
    def host(self) -> str:
        """Address of the client."""


class Authorizer(Protocol):
    """Decides on permissions. Called while a request is handled, so it must not block."""

    checks_every_request: bool
    """Whether something else than two-phase commit may be denied."""

    def allows(self, client: Client, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform the operation on the resource."""

    def is_super_user(self, principal: Principal) -> bool:
        """Return whether a principal may do everything, as far as ACLs decide."""

    def allows_some(self, client: Client, operation: Operation, resource: Resource) -> bool:
        """Return whether the client may perform the operation on at least one resource of a type."""


class ConfiguredAuthorizer:
    """Allows everything that the configuration does not deny."""

    checks_every_request = False

    def __init__(self, config: BrokerConfig) -> None:
        self._without_two_phase_commit = [
            name for name in map(str.strip, config["stuntbroker.deny.two.phase.commit"].split(",")) if name
        ]
        """Transactional ids; an entry that ends with `*` matches all ids with that prefix."""

    def allows(self, client: Client, operation: Operation, resource: Resource, name: str) -> bool:
        """As Authorizer."""
        if operation is not Operation.TWO_PHASE_COMMIT:
            return True
        return not any(
            name.startswith(denied[:-1]) if denied.endswith("*") else name == denied
            for denied in self._without_two_phase_commit
        )

    def is_super_user(self, principal: Principal) -> bool:
        """As Authorizer."""
        return True

    def allows_some(self, client: Client, operation: Operation, resource: Resource) -> bool:
        """As Authorizer."""
        return True


def operations_of(authorizer: Authorizer, client: Client, resource: Resource, name: str) -> int:
    """Return the operations that a client may perform on a resource, as a bit field of Kafka's responses (KIP-430)."""
    return bit_field(each for each in OPERATIONS_ON[resource] if authorizer.allows(client, each, resource, name))
