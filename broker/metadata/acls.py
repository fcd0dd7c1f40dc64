"""The ACLs of the cluster, set by requests and kept in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Any

from stuntbroker.protocol.acls import Acl, AclFields


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
