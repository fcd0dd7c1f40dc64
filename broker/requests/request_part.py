"""A part of a request that is handled in several parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stuntbroker.broker.requests.slices import Awaited

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking

Uses = TypeVar("Uses")


class RequestPart(Generic[Uses]):
    """Takes the place of the connection for one part of a request, and keeps the response to that part."""

    def __init__(self, connection: Asking[Uses]) -> None:
        self.connection = connection
        self.broker = connection.broker
        self.listener = connection.listener
        self.client_id: str = connection.client_id
        self.peer: str = connection.peer
        self.answer = Awaited()

    def reply(self, answer: Any) -> None:
        """Keep the response to this part of the request."""
        self.answer.set(answer)

    def fail(self, event: str, **facts: Any) -> None:
        """Close the connection, as for a whole request."""
        self.connection.fail(event, **facts)
        self.answer.set(None)
