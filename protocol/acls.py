"""ACLs: which principal may perform which operation on which resource (KIP-11, KIP-290).

Codes are Kafka's: `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple


class Operation(IntEnum):
    """Operation on a resource (AclOperation)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """Type of a resource (ResourceType)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of type CLUSTER."""

OPERATIONS_ON: Final = {
    Resource.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
"""Type of a resource -> operations that can be permitted on it, besides ALL."""


def bit_field(operations: Iterable[Operation]) -> int:
    """Return operations as in the responses that show them (KIP-430): a bit for the number of each."""
    return sum(1 << each for each in operations)


EVERYTHING_ON: Final = {resource: bit_field(operations) for resource, operations in OPERATIONS_ON.items()}
"""Type of a resource -> all operations on it, as a response shows them without an authorizer."""
OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""Value of that field of a response to a request that does not ask for it."""

UNKNOWN: Final = 0
ANY: Final = 1
"""Value of a filter that every value matches."""
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
EVERY: Final = "*"
"""Literal resource name, and host, that stand for all of them."""


AclFields = tuple[int, str, int, str, str, int, int]
"""Fields of an Acl."""


class ResourcePattern(NamedTuple):
    """The resources that an ACL is for."""

    resource_type: int
    name: str
    pattern_type: int


class Acl(NamedTuple):
    """One permission, or its denial."""

    resource_type: int
    resource_name: str
    pattern_type: int
    """LITERAL, or PREFIXED: the ACL is for all resources whose names begin with `resource_name`."""
    principal: str
    """`User:name`; `User:*` stands for everybody."""
    host: str
    operation: int
    permission_type: int

    @property
    def pattern(self) -> ResourcePattern:
        """The resources that this is for."""
        return ResourcePattern(self.resource_type, self.resource_name, self.pattern_type)

    def describe(self) -> str:
        """Return the ACL as a text, such as `User:alice may READ the TOPIC orders`."""
        may = "may" if self.permission_type == ALLOW else "may not"
        pattern = f"{self.resource_name}..." if self.pattern_type == PREFIXED else self.resource_name
        origin = "" if self.host == EVERY else f" from {self.host}"
        everything = self.operation == Operation.ALL
        operation = "do everything with" if everything else operation_name(self.operation)
        resource = resource_name(self.resource_type)
        return f"{self.principal} {may} {operation} the {resource} {pattern}{origin}"

    def is_about(self, name: str) -> bool:
        """Return whether the ACL is for the resource with this name."""
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, EVERY)


class AclFilter(NamedTuple):
    """A description of ACLs: None and ANY match every value."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    """MATCH: all ACLs that are for the resource `resource_name`, those of patterns included."""
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter describes an ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.pattern_type in (ANY, MATCH, acl.pattern_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name = self.resource_name
        if name is None:
            return True
        return acl.is_about(name) if self.pattern_type == MATCH else name == acl.resource_name


def operation_name(code: int) -> str:
    """Return Kafka's name of an operation, or the code as text if it is unknown."""
    return Operation(code).name if code in Operation.__members__.values() else str(code)


def resource_name(code: int) -> str:
    """Return Kafka's name of a type of resource, or the code as text if it is unknown."""
    return Resource(code).name if code in Resource.__members__.values() else str(code)


PATTERN_NAMES: Final = {ANY: "ANY", MATCH: "MATCH", LITERAL: "LITERAL", PREFIXED: "PREFIXED"}
PERMISSION_NAMES: Final = {DENY: "DENY", ALLOW: "ALLOW"}
"""Code -> Kafka's name."""
