"""A part of a request that is handled in several parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stuntbroker.broker.requests.slices import Awaited

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking
    from stuntbroker.protocol.acls import Operation, Resource

Uses = TypeVar("Uses")


class RequestPart(Generic[Uses]):
    """Takes the place of the connection for one part of a request, and keeps the response to that part."""

    def __init__(self, connection: Asking[Uses]) -> None:
        self.connection = connection
        self.broker = connection.broker
        self.listener = connection.listener
        self.client_id = connection.client_id
        self.peer = connection.peer
        self.host = connection.host
        self.principal = connection.principal
        self.route = connection.route
        self.answer = Awaited()

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""
        return self.connection.is_allowed(operation, resource, name)

    def reply(self, answer: Any) -> None:
        """Keep the response to this part of the request."""
        self.answer.set(answer)

    def fail(self, event: str, **facts: Any) -> None:
        """Close the connection, as for a whole request."""
        self.connection.fail(event, **facts)
        self.answer.set(None)
