"""A request of a client: who has sent it, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientConnection
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.permissions.authorizer import Principal
    from stuntbroker.broker.requests.routes import Handler, Route
    from stuntbroker.broker.services import RequestServices
    from stuntbroker.protocol.acls import Operation, Resource


class Request:
    """The context of a request, from its arrival until its response. The handler gets it with the decoded body."""

    __slots__ = ("before_reply", "broker", "connection", "correlation", "is_open", "on_close", "route")

    def __init__(self, connection: ClientConnection, broker: RequestServices, route: Route, correlation: int) -> None:
        self.connection = connection
        self.broker = broker
        """The broker; a handler names the parts that it uses (`services.Asking`)."""
        self.route = route
        """API and version of the request, and how they are handled."""
        self.correlation = correlation
        self.is_open = True
        """Whether the request is not answered yet, and its client still connected."""
        self.on_close: Callable[[], None] | None = None
        """Called if the connection is closed while the request waits."""
        self.before_reply: Callable[[Any], None] | None = None
        """Called once with the next response to `reply`, which is not sent then: for an interceptor."""

    @property
    def listener(self) -> Listener:
        """The listener that the client connected to."""
        return self.connection.listener

    @property
    def client_id(self) -> str:
        """Client id in the header of the request, until it is answered."""
        return self.connection.client_id

    @property
    def peer(self) -> str:
        """HOST:PORT of the client."""
        return self.connection.peer

    @property
    def host(self) -> str:
        """Address of the client."""
        return self.connection.host

    @property
    def principal(self) -> Principal:
        """Principal of the client, for the authorizer."""
        return self.connection.principal

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""
        return self.broker.authorizer.allows(self, operation, resource, name)

    def reply(self, response: Any) -> None:
        """Answer the request, which was waiting. Do nothing if the client has disconnected."""
        if not self.is_open:
            return
        if self.before_reply is not None:
            before_reply, self.before_reply = self.before_reply, None
            before_reply(response)
            return
        self.is_open = False
        self.on_close = None
        self.connection.answer(response)

    def fail(self, event: str, **facts: Any) -> None:
        """Log one event and close the connection, as Kafka does for requests that it cannot answer."""
        self.connection.fail(event, **facts)

    def closed(self) -> None:
        """End the request without a response, because the connection is closed."""
        self.is_open = False
        self.before_reply = None
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()

    def handle_later(self, handle: Handler, body: Any, version: int) -> None:
        """Handle and answer the request, which an interceptor has held, even if the client has disconnected."""
        try:
            if self.route.reads and self.broker.turn.armed:
                self.broker.turn.flush()
            response = handle(self, body, version)
        except Exception as fault:  # A failing request ends its connection, not the broker.
            self.handle_fault(fault)
            return
        if response is not None:
            self.reply(response)

    def handle_fault(self, fault: Exception) -> bool:
        """Log an exception of a handler, and close the connection if necessary; return whether it stays open."""
        facts = {"api_key": self.route.key, "api_version": self.route.version}
        if not isinstance(fault, StorageError):
            self.broker.events.error("request_crashed", **facts, exc_info=fault)
            self.connection.close()
            return False
        if not self.is_open and self.connection.transport is not None:
            # The request was answered: a later one has failed.
            self.broker.events.error("request_failed", **facts, reason=str(fault))
            return True
        self.fail("request_failed", **facts, reason=str(fault))
        return False
