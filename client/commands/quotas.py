"""Quotas of users, client ids and addresses: reading and changing them (KIP-546)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import check
from stuntbroker.protocol.api_keys import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from stuntbroker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from stuntbroker.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from stuntbroker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from stuntbroker.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from stuntbroker.protocol.request_values import MATCH_DEFAULT, MATCH_EXACT, MATCH_SPECIFIED

EVERY: Final = ""
"""In place of a name in `describe_quotas`: matches every name, and the default."""
Entity = dict[str, str | None]
"""Entity type (`user`, `client-id`, `ip`) -> name; None for the default quota of the type."""


class Quota(NamedTuple):
    """Quotas of a user, a client id, both together, or an IP address."""

    entity: Entity
    values: dict[str, float]


def describe_quotas(cluster: Cluster, entity: Mapping[str, str | None]) -> list[Quota]:
    """Return the quotas of entities with exactly these entity types; a name may be EVERY. Raises BrokerError."""

    def attempt() -> list[Quota]:
        components = [ComponentData(kind, *_match(name)) for kind, name in entity.items()]
        request = DescribeClientQuotasRequest(components, strict=True)
        answer = cluster.ask(cluster.controller_id(), DESCRIBE_CLIENT_QUOTAS, request, DescribeClientQuotasResponse)
        check("reading quotas", answer.error_code, answer.error_message)
        return [
            Quota(
                {each.entity_type: each.entity_name for each in entry.entity},
                {each.key: each.value for each in entry.values},
            )
            for entry in answer.entries or ()
        ]

    return cluster.retrying(attempt)


def _match(name: str | None) -> tuple[int, str | None]:
    if name is None:
        return MATCH_DEFAULT, None
    return (MATCH_SPECIFIED, None) if name == EVERY else (MATCH_EXACT, name)


def alter_quotas(
    cluster: Cluster, entity: Mapping[str, str | None], values: Mapping[str, float], deleted: Collection[str] = ()
) -> None:
    """Set `values` for an entity, and remove the quotas in `deleted`. Raises BrokerError."""
    ops = [OpData(key, value) for key, value in values.items()]
    ops += [OpData(key, remove=True) for key in deleted]
    entry = EntryData([EntityData(kind, name) for kind, name in entity.items()], ops)

    def attempt() -> None:
        request = AlterClientQuotasRequest([entry])
        answer = cluster.ask(cluster.controller_id(), ALTER_CLIENT_QUOTAS, request, AlterClientQuotasResponse)
        for each in answer.entries:
            check("changing quotas", each.error_code, each.error_message)

    cluster.retrying(attempt)
