"""Asks the authorizer for a client's permission, and logs a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stuntbroker.broker.services import AskingPart, HasEvents
    from stuntbroker.protocol.acls import Operation, Resource


def may(connection: AskingPart[HasEvents], operation: Operation, resource: Resource, name: str) -> bool:
    """Return whether the client may perform an operation on a resource; log a refusal."""
    if connection.is_allowed(operation, resource, name):
        return True
    connection.broker.events.info(
        "permission_denied",
        principal=str(connection.principal),
        operation=operation.name,
        resource=resource.name,
        name=name,
        client=connection.peer,
        client_id=connection.client_id,
    )
    return False
