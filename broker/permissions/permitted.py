"""Asks the authorizer for a client's permission, and logs a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stuntbroker.broker.services import AskingPart, HasEvents
    from stuntbroker.protocol.acls import Operation, Resource


def may(request: AskingPart[HasEvents], operation: Operation, resource: Resource, name: str) -> bool:
    """Return whether the client may perform an operation on a resource; log a refusal."""
    if request.is_allowed(operation, resource, name):
        return True
    request.broker.events.info(
        "permission_denied",
        principal=str(request.principal),
        operation=operation.name,
        resource=resource.name,
        name=name,
        client=request.peer,
        client_id=request.client_id,
    )
    return False
