"""A part of a request that is handled in several parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stuntbroker.broker.requests.slices import Awaited

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking
    from stuntbroker.protocol.acls import Operation, Resource

Uses = TypeVar("Uses")


class RequestPart(Generic[Uses]):
    """Takes the place of a request for one part of it, and keeps the response to that part."""

    def __init__(self, request: Asking[Uses]) -> None:
        self.request = request
        self.broker = request.broker
        self.listener = request.listener
        self.client_id = request.client_id
        self.peer = request.peer
        self.host = request.host
        self.principal = request.principal
        self.route = request.route
        self.answer = Awaited()

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""
        return self.request.is_allowed(operation, resource, name)

    def reply(self, answer: Any) -> None:
        """Keep the response to this part of the request, unless it has failed."""
        if not self.answer.is_set:
            self.answer.set(answer)

    def fail(self, event: str, **facts: Any) -> None:
        """Close the connection, as for a whole request."""
        self.request.fail(event, **facts)
        self.reply(None)

    def handle_fault(self, fault: Exception) -> bool:
        """Handle an exception of this part as one of the whole request; return whether the connection stays open."""
        stays_open = self.request.handle_fault(fault)
        self.reply(None)
        return stays_open
