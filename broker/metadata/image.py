"""The metadata image: the state that results from the changes in the journal.

Invalid changes are refused, because a change that is applied wrongly could lose data.

| change | condition |
|---|---|
| `{"create": name, "id": 32 hex digits, "partitions": n, "configs": {name: text}}` | no topic has the name, or ever had the id |
| `{"partitions": name, "count": n}` | the topic exists and has no more partitions |
| in both: `"placed": {partition: [leader, node ...]}` | the topic has these partitions |
| `{"configs": name, "set": {name: text}}` | the topic exists |
| `{"placed": name, "partitions": {partition: [leader, node ...]}}` | the topic exists and has these partitions |
| `{"delete": name}` | the topic exists |
| `{"broker_configs": "" or node id, "set": {name: text}}` | none |
| `{"producer_ids_below": n}` | it was not higher before |
| `{"transaction_version": level, "features_epoch": n}` | the epoch was not higher before |
| `{"quotas": {entity type: name or null}, "set": {quota: number as text}}` | if `set` is empty, the entity has quotas |
| `{"acl": [type, name, pattern, principal, host, operation, permission], "exists": bool}` | it did not exist, or did |
| `{"scram_user": name, "credentials": {mechanism: [salt, iterations, two keys]}}` | if there are none, the user has some |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.metadata.features import FIRST_FEATURES_EPOCH, LEVEL_MAX
from stuntbroker.broker.metadata.quotas import ENTITY_TYPES, Entity, Values, entity_of
from stuntbroker.protocol.acls import AclFields
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX
from stuntbroker.protocol.topic_names import TopicNameError, check_name
from stuntbroker.storage.ownership import Deleted

PLACED: Final = {"placed"}
"""Optional field of a change that creates partitions, if there are several nodes: `{partition: [leader, node ...]}`."""
CODES: Final = range(2, 128)
"""Codes of an ACL: below are UNKNOWN and ANY, above what a request can have."""
_ID: Final = re.compile("[0-9a-f]{32}")
_HEX: Final = re.compile("[0-9a-f]*")


class ImageError(ValueError):
    """A change in the journal is invalid. `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class TopicImage(NamedTuple):
    """A topic as the journal describes it."""

    id: bytes
    partitions: int
    configs: dict[str, str]
    placements: Mapping[int, tuple[int, tuple[int, ...]]] = MappingProxyType({})
    """Partition -> (leader, replicas); only for partitions of a cluster of several nodes or with a changed leader."""


class Image:
    """Everything that the journal describes; its lines have the same subjects."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.deleted: dict[str, Deleted] = {}
        """Topic name -> topics deleted since the journal was last compacted."""
        self.ids: set[bytes] = set()
        """All topic ids in the journal, including those of deleted topics."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        """Broker id ("" for all brokers) -> dynamic broker configuration."""
        self.others: dict[str, int] = {}
        """Name -> number, such as `producer_ids_below` and `features_epoch`."""
        self.quotas: dict[Entity, Values] = {}
        """Client quotas, by entity."""
        self.acls: dict[AclFields, None] = {}
        """Fields of each `acls.Acl`, in the order in which they were created."""
        self.scram_users: dict[str, dict[str, list[Any]]] = {}
        """User -> {SCRAM mechanism -> salt, iterations, stored key, server key}, as in the journal."""


def image_of(changes: Iterable[dict[str, Any]]) -> Image:
    """Apply the changes of a journal in order and return the image. Raises ImageError at the first invalid change."""
    image = Image()
    for line, change in enumerate(changes, 1):
        try:
            _apply(image, change)
        except (_InvalidChange, TopicNameError) as fault:
            raise ImageError(line, str(fault)) from None
    return image


class _InvalidChange(ValueError):
    pass


def _apply(image: Image, change: dict[str, Any]) -> None:
    match change:
        case {"create": str(name), "id": str(text), "partitions": count, "configs": configs, **others} if (
            others.keys() <= PLACED
        ):
            check_name(name)
            if name in image.topics:
                raise _InvalidChange(f"topic {name} is created, but exists already")
            if not _ID.fullmatch(text) or bytes.fromhex(text) in image.ids:
                raise _InvalidChange(f"topic {name} gets an invalid id, or the id of another topic: {text!r}")
            image.topics[name] = TopicImage(bytes.fromhex(text), _number(count, 1, INT32_MAX), _texts(configs))
            image.ids.add(bytes.fromhex(text))
            _place(image, name, others.get("placed", {}))
        case {"partitions": str(name), "count": count, **others} if others.keys() <= PLACED:
            topic = _topic(image, name)
            image.topics[name] = topic._replace(partitions=_number(count, topic.partitions, INT32_MAX))
            _place(image, name, others.get("placed", {}))
        case {"configs": str(name), "set": configs, **others} if not others:
            image.topics[name] = _topic(image, name)._replace(configs=_texts(configs))
        case {"placed": str(name), "partitions": placements, **others} if not others:
            _place(image, name, placements)
        case {"delete": str(name), **others} if not others:
            topic = _topic(image, name)
            ids, partitions = image.deleted.get(name, (set(), 0))
            ids.add(topic.id)
            image.deleted[name] = Deleted(ids, max(partitions, topic.partitions))
            del image.topics[name]
        case {"broker_configs": str(level), "set": configs, **others} if not others:
            image.broker_configs[level] = _texts(configs)
        case {"producer_ids_below": number, **others} if not others:
            image.others["producer_ids_below"] = _number(number, image.others.get("producer_ids_below", 0), INT64_MAX)
        case {"transaction_version": level, "features_epoch": epoch, **others} if not others:
            image.others["transaction_version"] = _number(level, 0, LEVEL_MAX)
            image.others["features_epoch"] = _number(
                epoch, image.others.get("features_epoch", FIRST_FEATURES_EPOCH), INT64_MAX
            )
        case {"quotas": entity_names, "set": values, **others} if not others:
            _apply_quotas(image, _entity(entity_names), _texts(values))
        case {"acl": [*parts], "exists": bool(exists), **others} if not others:
            _apply_acl(image, _acl(parts), exists)
        case {"scram_user": str(user), "credentials": credentials, **others} if not others:
            _apply_scram(image, user, credentials)
        case _:
            raise _InvalidChange(f"an unknown kind of change, with {', '.join(map(repr, change)) or 'no field'}")


def _place(image: Image, name: str, placements: Any) -> None:
    topic = _topic(image, name)
    if not isinstance(placements, dict):
        raise _InvalidChange(f"invalid placements of partitions: {placements!r}")
    placed = {_index(text, topic.partitions): _placement(nodes) for text, nodes in placements.items()}
    image.topics[name] = topic._replace(placements={**topic.placements, **placed})


def _apply_quotas(image: Image, entity: Entity, values: dict[str, str]) -> None:
    if not values and image.quotas.pop(entity, None) is None:
        raise _InvalidChange(f"quotas of {dict(entity)!r} are removed, but there are none")
    if values:
        image.quotas[entity] = {key: _rate(text) for key, text in values.items()}


def _acl(parts: list[Any]) -> AclFields:
    match parts:
        case [int(kind), str(), int(pattern), str(), str(), int(operation), int(permission)] if all(
            code in CODES for code in (kind, pattern, operation, permission)
        ):
            return tuple(parts)
    raise _InvalidChange(f"not an ACL: {parts!r}")


def _apply_acl(image: Image, acl: AclFields, exists: bool) -> None:
    if exists == (acl in image.acls):
        raise _InvalidChange(
            f"an ACL is {'created, but exists already' if exists else 'removed, but does not exist'}: {acl}"
        )
    if exists:
        image.acls[acl] = None
    else:
        del image.acls[acl]


def _apply_scram(image: Image, user: str, credentials: Any) -> None:
    if not isinstance(credentials, dict) or not all(_is_credential(each) for each in credentials.values()):
        raise _InvalidChange(f"invalid SCRAM credentials of a user: {credentials!r}")
    if not credentials and image.scram_users.pop(user, None) is None:
        raise _InvalidChange(f"the SCRAM credentials of {user!r} are removed, but there are none")
    if credentials:
        image.scram_users[user] = credentials


def _is_credential(value: Any) -> bool:
    match value:
        case [str(salt), int(), str(stored_key), str(server_key)]:
            return all(len(text) % 2 == 0 and _HEX.fullmatch(text) for text in (salt, stored_key, server_key))
    return False


def _entity(names: Any) -> Entity:
    known = (
        isinstance(names, dict)
        and names
        and all(kind in ENTITY_TYPES and isinstance(name, str | None) for kind, name in names.items())
    )
    if not known:
        raise _InvalidChange(f"not an entity with quotas: {names!r}")
    return entity_of(names.items())


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _InvalidChange(f"{text!r} is not a number") from None


def _topic(image: Image, name: str) -> TopicImage:
    if name not in image.topics:
        raise _InvalidChange(f"topic {name} is changed, but does not exist")
    return image.topics[name]


def _number(value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise _InvalidChange(f"{value!r} is not a whole number in {low}..{high}")
    return value


def _index(text: str, count: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < count):
        raise _InvalidChange(f"{text!r} is not a partition index below {count}")
    return int(text)


def _placement(nodes: Any) -> tuple[int, tuple[int, ...]]:
    if not isinstance(nodes, list) or len(nodes) < 2:
        raise _InvalidChange(f"not a leader and replicas: {nodes!r}")
    leader, *replicas = nodes
    return _number(leader, NO_LEADER, INT32_MAX), tuple(_number(node_id, 0, INT32_MAX) for node_id in replicas)


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _InvalidChange(f"configuration that is not a mapping of strings: {value!r}")
    return value
