"""Who may do what: the port that every check of a permission goes through.

A broker has one authorizer, a connection one principal. Operations and kinds of resources have Kafka's numbers
(`AclOperation`, `ResourceType`); each is listed here with its first check. There are no ACLs yet: only two-phase commit is
checked, and `ConfiguredAuthorizer` allows it but to the transactional ids of `stuntbroker.deny.two.phase.commit`.
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
    """Types of resources (ResourceType)."""

    TRANSACTIONAL_ID = 5


class Principal(NamedTuple):
    """Principal of a client."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Every client of a listener without authentication, as in Kafka."""


class Authorizer(Protocol):
    """Decides on permissions. Called while a request is handled, so it must not block."""

    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the principal may perform the operation on the resource."""


class ConfiguredAuthorizer:
    """Allows everything but what the configuration denies."""

    def __init__(self, config: BrokerConfig) -> None:
        self._without_two_phase_commit = [
            name for name in map(str.strip, config["stuntbroker.deny.two.phase.commit"].split(",")) if name
        ]
        """Transactional ids; one that ends with `*` stands for all that begin so."""

    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        """As Authorizer."""
        if operation is not Operation.TWO_PHASE_COMMIT:
            return True
        return not any(
            name.startswith(denied[:-1]) if denied.endswith("*") else name == denied
            for denied in self._without_two_phase_commit
        )
