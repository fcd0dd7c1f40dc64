"""Authorization: the interface for all permission checks, and its implementation.

A broker has one authorizer, and a connection has one principal. Operations and resource types have Kafka's numbers
(`AclOperation`, `ResourceType`); only those that are checked are listed here. There are no ACLs: only two-phase commit is
checked, and `ConfiguredAuthorizer` denies it to the transactional ids in `stuntbroker.deny.two.phase.commit`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig


class Operation(IntEnum):
    """Operation on a resource (AclOperation)."""

    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """Type of a resource (ResourceType)."""

    TRANSACTIONAL_ID = 5


class Principal(NamedTuple):
    """Principal of a client."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Principal of all clients of a listener without authentication, as in Kafka."""


class Authorizer(Protocol):
    """Decides on permissions. Called while a request is handled, so it must not block."""

    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the principal may perform the operation on the resource."""


class ConfiguredAuthorizer:
    """Allows everything that the configuration does not deny."""

    def __init__(self, config: BrokerConfig) -> None:
        self._without_two_phase_commit = [
            name for name in map(str.strip, config["stuntbroker.deny.two.phase.commit"].split(",")) if name
        ]
        """Transactional ids; an entry that ends with `*` matches all ids with that prefix."""

    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        """As Authorizer."""
        if operation is not Operation.TWO_PHASE_COMMIT:
            return True
        return not any(
            name.startswith(denied[:-1]) if denied.endswith("*") else name == denied
            for denied in self._without_two_phase_commit
        )
