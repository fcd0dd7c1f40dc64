"""DescribeClientQuotas, key 48, versions 0-1: the quotas of the entities that a filter matches. v1 flexible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.quotas import CLIENT_ID, ENTITY_TYPES, IP, USER, Entity
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from stuntbroker.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from stuntbroker.protocol.request_values import MATCH_DEFAULT, MATCH_EXACT, MATCH_SPECIFIED

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasQuotas

    class Uses(HasLongRequests, HasQuotas, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 48
VERSIONS = range(0, 2)


def handle(
    request: Asking[Uses], body: DescribeClientQuotasRequest, version: int
) -> DescribeClientQuotasResponse | None:
    """Describe the quotas that match a filter; None when the response comes later."""
    refusal = _refusal(body.components)
    if refusal is not None:
        return DescribeClientQuotasResponse(0, *refusal, None)
    return run_in_slices(request, _describe(request.broker, body))


def _refusal(components: Sequence[ComponentData]) -> tuple[ErrorCode, str] | None:
    """Return the error of a filter, in Kafka's order of checks; None if it is valid."""
    types: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
        if kind in types:
            return ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in ENTITY_TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        problem = _problem_of_match(component.match_type, component.match)
        if problem is not None:
            return ErrorCode.INVALID_REQUEST, problem
        types.add(kind)
    if IP in types and types & {USER, CLIENT_ID}:
        return ErrorCode.INVALID_REQUEST, (
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )
    return None


def _problem_of_match(match_type: int, match: str | None) -> str | None:
    if match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return f"Unknown match type {match_type}"
    if match_type == MATCH_EXACT:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null." if match is None else None
    if match is None:
        return None
    name = "MATCH_TYPE_DEFAULT" if match_type == MATCH_DEFAULT else "MATCH_TYPE_SPECIFIED"
    return f"Request specified {name}, but also specified a match string."


def _describe(broker: Uses, body: DescribeClientQuotasRequest) -> Steps[DescribeClientQuotasResponse]:
    entries = []
    for entity, values in list(broker.quotas.by_entity.items()):
        yield ELEMENT_COST
        if _matches(entity, body.components, body.strict):
            entries.append(
                EntryData(
                    [EntityData(kind, name) for kind, name in entity],
                    [ValueData(key, value) for key, value in values.items()],
                )
            )
    return DescribeClientQuotasResponse(0, ErrorCode.NONE, "", entries)


def _matches(entity: Entity, components: Sequence[ComponentData], strict: bool) -> bool:
    """Return whether an entity matches a filter; a strict filter does not match entities with further types."""
    if strict and len(entity) != len(components):
        return False
    names = dict(entity)
    return all(
        component.entity_type in names
        and (component.match_type == MATCH_SPECIFIED or names[component.entity_type] == component.match)
        for component in components
    )
