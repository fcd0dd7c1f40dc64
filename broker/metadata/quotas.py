"""Client quotas (KIP-546): limits for users, client ids and addresses, kept in the journal.

An entity whose last quota is removed is removed too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of `entity_of`. The name of a default entity is None."""
Values = dict[str, float]

CLIENT_ID, USER, IP = ENTITY_TYPES = ("client-id", "user", "ip")
"""Entity types, in the order of Kafka's responses."""
LONG, INT, DOUBLE = "LONG", "INT", "DOUBLE"
CLIENT_KEYS: Final = {
    "producer_byte_rate": LONG,
    "consumer_byte_rate": LONG,
    "request_percentage": DOUBLE,
    "controller_mutation_rate": DOUBLE,
}
"""Quota of users, client ids, or both -> type of its value."""
IP_KEYS: Final = {"connection_creation_rate": INT}


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity of these (type, name) pairs. The last name of a type counts; unknown types come last."""

    def place(part: tuple[str, str | None]) -> tuple[int, str]:
        kind = part[0]
        return ENTITY_TYPES.index(kind) if kind in ENTITY_TYPES else len(ENTITY_TYPES), kind

    return tuple(sorted(dict(parts).items(), key=place))


class ClientQuotas:
    """The quotas of every entity that has one."""

    # Unlike Kafka: quotas are stored and described, but no client is throttled.

    def __init__(self, journal: Callable[[dict[str, Any]], None], known: Mapping[Entity, Values]) -> None:
        """Create the quotas with the values of the journal, `known`."""
        self._journal = journal
        self.by_entity: dict[Entity, Values] = dict(known)

    def as_changes(self) -> list[dict[str, Any]]:
        """Return the changes to keep when the journal is rewritten."""
        return [_change(entity, values) for entity, values in self.by_entity.items()]

    def alter(self, entity: Entity, changes: Mapping[str, float | None]) -> bool:
        """Set quotas, or remove those that are None, after writing them to the journal; return whether anything changed.

        Raises StorageError; then nothing has changed.
        """
        before = self.by_entity.get(entity, {})
        values = {key: value for key, value in {**before, **changes}.items() if value is not None}
        if values == before:
            return False
        self._journal(_change(entity, values))
        if values:
            self.by_entity[entity] = values
        else:
            del self.by_entity[entity]
        return True


def _change(entity: Entity, values: Values) -> dict[str, Any]:
    """Return the journal change. Values are strings, because JSON has neither NaN nor infinity."""
    return {"quotas": dict(entity), "set": {key: repr(value) for key, value in values.items()}}
