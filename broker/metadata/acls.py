"""ACLs: which principal may perform which operation on which resource. Set by requests, and kept in the journal.

Codes are Kafka's: `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Any, Final, NamedTuple

UNKNOWN: Final = 0
ANY: Final = 1
"""Value of a filter that every value matches."""
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
EVERY: Final = "*"
"""Literal resource name, and host, that stand for all of them."""


AclFields = tuple[int, str, int, str, str, int, int]
"""Fields of an Acl."""


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


class Acls:
    """The ACLs of the cluster, by the type of their resource."""

    def __init__(self, journal: Callable[[dict[str, Any]], None], known: Iterable[AclFields]) -> None:
        """Create the ACLs with those of the journal, `known`."""
        self._journal = journal
        self._by_type: dict[int, dict[Acl, None]] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change."""
        for acl in starmap(Acl, known):
            self._by_type.setdefault(acl.resource_type, {})[acl] = None

    def of_type(self, resource_type: int) -> Iterable[Acl]:
        """Return the ACLs for resources of a type, the oldest first."""
        return self._by_type.get(resource_type, ())

    def __iter__(self) -> Iterator[Acl]:
        for acls in self._by_type.values():
            yield from acls

    def add(self, acl: Acl) -> bool:
        """Add an ACL after writing it to the journal; return False if it exists already. Raises StorageError."""
        acls = self._by_type.setdefault(acl.resource_type, {})
        if acl in acls:
            return False
        self._journal(change_of(acl))
        acls[acl] = None
        self.on_change()
        return True

    def remove(self, acl: Acl) -> None:
        """Remove an ACL, if it exists, after writing the removal to the journal. Raises StorageError."""
        acls = self._by_type.get(acl.resource_type, {})
        if acl in acls:
            self._journal(change_of(acl, exists=False))
            del acls[acl]
            self.on_change()


def change_of(acl: Iterable[int | str], exists: bool = True) -> dict[str, Any]:
    """Return the change of the journal that adds an ACL or removes it."""
    return {"acl": list(acl), "exists": exists}
