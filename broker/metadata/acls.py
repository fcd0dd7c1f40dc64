"""The ACLs of the cluster, set by requests and kept in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Any

from stuntbroker.protocol.acls import EVERY, LITERAL, PREFIXED, Acl, AclFields, ResourcePattern


class Acls:
    """The ACLs of the cluster, by what they are about."""

    def __init__(self, journal: Callable[[dict[str, Any]], None], known: Iterable[AclFields]) -> None:
        """Create the ACLs with those of the journal, `known`."""
        self._journal = journal
        self._by_pattern: dict[ResourcePattern, dict[Acl, None]] = {}
        for acl in starmap(Acl, known):
            self._by_pattern.setdefault(acl.pattern, {})[acl] = None

    def about(self, resource_type: int, name: str) -> list[Acl]:
        """Return the ACLs that are for a resource."""
        if not self._by_pattern:
            return []
        patterns = [ResourcePattern(resource_type, each, LITERAL) for each in dict.fromkeys((name, EVERY))]
        patterns += [ResourcePattern(resource_type, name[:length], PREFIXED) for length in range(1, len(name) + 1)]
        return [acl for pattern in patterns for acl in self._by_pattern.get(pattern, ())]

    def of_type(self, resource_type: int) -> list[Acl]:
        """Return the ACLs for resources of a type."""
        return [acl for acl in self if acl.resource_type == resource_type]

    def __iter__(self) -> Iterator[Acl]:
        for acls in self._by_pattern.values():
            yield from acls

    def add(self, acl: Acl) -> bool:
        """Add an ACL after writing it to the journal; return False if it exists already. Raises StorageError."""
        if acl in self._by_pattern.get(acl.pattern, ()):
            return False
        self._journal(change_of(acl))
        self._by_pattern.setdefault(acl.pattern, {})[acl] = None
        return True

    def remove(self, acl: Acl) -> bool:
        """Remove an ACL after writing the removal to the journal; return False if it does not exist. Raises StorageError."""
        acls = self._by_pattern.get(acl.pattern, {})
        if acl not in acls:
            return False
        self._journal(change_of(acl, exists=False))
        del acls[acl]
        if not acls:
            del self._by_pattern[acl.pattern]
        return True


def change_of(acl: Iterable[int | str], exists: bool = True) -> dict[str, Any]:
    """Return the change of the journal that adds an ACL or removes it."""
    return {"acl": list(acl), "exists": exists}
