"""AlterClientQuotas, key 49, versions 0-1: sets and removes quotas, atomically for each entity. v1 flexible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.quotas import (
    CLIENT_KEYS,
    DOUBLE,
    ENTITY_TYPES,
    INT,
    IP,
    IP_KEYS,
    LONG,
    Entity,
    entity_of,
)
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from stuntbroker.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents, HasLongRequests, HasQuotas, HasSyncer

    class Uses(HasEvents, HasLongRequests, HasQuotas, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 49
VERSIONS = range(0, 2)
VALUE_MAX_BY_TYPE: Final = {INT: ("an INT", 2.0**31 - 1), LONG: ("a LONG", 2.0**63)}
"""Kafka's name of each type, and the largest value that it accepts."""
FRACTION_MAX: Final = 1e-6
HOST_NAME: Final = re.compile(
    r"(?!.*\.invalid$)([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*(?!\d+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.I
)
HOST_LENGTH_MAX: Final = 253
IPV4_PARTS_MAX: Final = 4


def handle(request: Asking[Uses], body: AlterClientQuotasRequest, version: int) -> AlterClientQuotasResponse | None:
    """Store or remove quotas; None when the response comes later."""
    return run_in_slices(request, _alter_each(request.broker, body))


def _alter_each(broker: Uses, body: AlterClientQuotasRequest) -> Steps[AlterClientQuotasResponse]:
    results: dict[Entity, tuple[ErrorCode, str | None]] = {}
    cost = 0
    for entry in body.entries:
        yield cost
        cost = ELEMENT_COST + len(entry.ops)
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in results or len({op.key for op in entry.ops}) < len(entry.ops):
            # As in Kafka, the first entry of the entity has been applied nevertheless.
            shown = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
            message = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})"
            results[entity] = ErrorCode.INVALID_REQUEST, message
            continue
        refusal = _problem_of_entity(entity) or _problem_of_ops(entity, entry.ops)
        if refusal is not None:
            results[entity] = ErrorCode.INVALID_REQUEST, refusal
        elif body.validate_only:
            results[entity] = ErrorCode.NONE, None
        else:
            results[entity] = _alter(broker, entity, entry.ops)
            cost += cost_of_change(broker.syncer is not None, 1)
    return AlterClientQuotasResponse(
        entries=[
            EntryData(error, message, [EntityData(kind, name) for kind, name in entity])
            for entity, (error, message) in results.items()
        ]
    )


def _alter(broker: Uses, entity: Entity, ops: Sequence[OpData]) -> tuple[ErrorCode, str | None]:
    try:
        altered = broker.quotas.alter(entity, {op.key: None if op.remove else op.value for op in ops})
    except StorageError as fault:
        return ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
    if altered:
        broker.events.info("client_quotas_altered", entity=dict(entity), quotas=broker.quotas.by_entity.get(entity, {}))
    return ErrorCode.NONE, None


def _problem_of_entity(entity: Entity) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    names = dict(entity)
    if IP in names and len(names) > 1:  # Kafka's message has the misspelling.
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = names.get(IP)
    if address is not None and not _is_host(address):
        return f"{address} is not a valid IP or resolvable host."
    return None


def _problem_of_ops(entity: Entity, ops: Sequence[OpData]) -> str | None:
    """Return the first problem of an entity's operations; removals are not checked, as in Kafka."""
    types = IP_KEYS if entity[0][0] == IP else CLIENT_KEYS
    for op in ops:
        if op.remove:
            continue
        if op.key not in types:
            return f"Invalid configuration key {op.key}"
        problem = _problem_of_value(op.key, types[op.key], op.value)
        if problem is not None:
            return problem
    return None


def _problem_of_value(key: str, kind: str, value: float) -> str | None:
    """Return the problem of a quota's value; NaN passes every check, as in Kafka."""
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if kind != DOUBLE:
        name, largest = VALUE_MAX_BY_TYPE[kind]
        if value > largest:
            return f"Proposed value for {key} is too large for {name}."
        if value % 1 > FRACTION_MAX:
            return f"{key} cannot be a fractional value."
    return None


def _is_host(text: str) -> bool:
    """Return whether the text is an IP address as Java parses it, or a valid host name."""
    if len(text) > HOST_LENGTH_MAX:
        return False
    parts = text.split(".")
    if len(parts) <= IPV4_PARTS_MAX and all(part.isascii() and part.isdigit() for part in parts):
        *first, last = map(int, parts)  # With fewer than four numbers, the last one fills the remaining bytes.
        return max(first, default=0) < 256 and last < 256 ** (IPV4_PARTS_MAX - len(first))
    try:
        IPv6Address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        # Unlike Kafka: names are not resolved. Every valid host name is accepted, except those in .invalid.
        return HOST_NAME.fullmatch(text) is not None
    return True
