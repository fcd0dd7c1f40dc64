"""Interfaces of a client's connection, and of its requests, for the other parts of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.permissions.authorizer import Principal
    from stuntbroker.broker.requests.routes import Handler, Route
    from stuntbroker.broker.security.authentication import Authentication


class ClientConnection(Protocol):
    """A client's connection; the attributes are described in `connection.Connection`."""

    listener: Listener
    client_id: str
    peer: str
    host: str
    local: tuple[str, int]
    principal: Principal
    authentication: Authentication | None
    transport: Any
    room: int
    active_ms: int
    is_paused: bool

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""

    def answer(self, response: Any) -> None:
        """Send the response to the request in progress."""

    def fail(self, event: str, **facts: Any) -> None:
        """Log one event and close the connection."""

    def close(self) -> None:
        """Close the connection after all responses have been sent."""

    def abort(self) -> None:
        """Close the connection immediately, without sending pending responses."""

    def read_on(self) -> None:
        """Resume reading a partly received request."""

    def hold(self) -> None:
        """Stop handling requests until `release`."""

    def release(self) -> None:
        """End `hold`."""

    def has_stalled(self) -> bool:
        """Return whether a partly received request has not grown since the last call."""

    def was_active(self) -> bool:
        """Return whether a request has arrived since the last call, or is in progress."""

    def release_buffer(self) -> None:
        """Release a large receive buffer that is not in use."""


class Requester(Protocol):
    """The client that has sent a request or a part of it, and the way to answer it; as in `request.Request`."""

    route: Route

    @property
    def listener(self) -> Listener:
        """The listener that the client connected to."""

    @property
    def client_id(self) -> str:
        """Client id in the header of the request."""

    @property
    def peer(self) -> str:
        """HOST:PORT of the client."""

    @property
    def host(self) -> str:
        """Address of the client."""

    @property
    def principal(self) -> Principal:
        """Principal of the client."""

    def reply(self, response: Any) -> None:
        """Answer the request, or the part."""

    def fail(self, event: str, **facts: Any) -> None:
        """Log one event and close the connection."""

    def handle_fault(self, fault: Exception) -> bool:
        """Log an exception, and close the connection if necessary; return whether it stays open."""


class ClientRequest(Requester, Protocol):
    """A request of a client; the attributes are described in `request.Request`."""

    connection: ClientConnection
    is_open: bool
    on_close: Callable[[], None] | None
    before_reply: Callable[[Any], None] | None

    def handle_later(self, handle: Handler, body: Any, version: int) -> None:
        """Handle and answer the request, which was held."""
