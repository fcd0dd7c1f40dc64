"""Log of the last requests to a broker, with their fields and outcomes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.plain_messages import Plain, error_codes, error_name, plain_request, readable_answer
from stuntbroker.protocol.api_keys import APIS, INIT_PRODUCER_ID, PRODUCE

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientConnection, ClientRequest
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import (
        HasClock,
        HasConnections,
    )

    class Uses(HasClock, HasConnections, Protocol):
        """Parts of the broker that this module uses."""


REQUESTS_KEPT: Final = 1_000
ELEMENTS_KEPT: Final = 20
"""Maximum number of elements kept of each list in a request, to limit memory."""
ERRORS_KEPT: Final = 10
"""Maximum number of different errors kept of a response."""
PRODUCER_APIS: Final = frozenset({PRODUCE, INIT_PRODUCER_ID})
"""APIs that mark a client as a producer."""


@dataclass(slots=True)
class LoggedRequest:
    """A request, logged on arrival and completed with its response."""

    number: int
    at_ms: int
    """Time of arrival in ms since 1970, by the broker's clock."""
    api: str
    version: int
    client_id: str
    client: str
    """HOST:PORT"""
    listener: str
    """Name of the listener that received the request."""
    node: int
    """Id of the node that received the request."""
    fields: Plain
    state: str = "waits"
    """waits, answered, closed (the connection ended without a response), or the verb of a fault."""
    took_ms: int = -1
    errors: tuple[str, ...] = ()
    """Names of the error codes in the response."""
    fault: str = ""
    """Id of the fault that hit the request, or empty."""


class RequestLog:
    """The last `REQUESTS_KEPT` requests, as an interceptor of all APIs."""

    def __init__(self, broker: Uses) -> None:
        self._broker = broker
        self._number = 0
        self._requests: deque[LoggedRequest] = deque(maxlen=REQUESTS_KEPT)
        self.current: dict[ClientConnection, LoggedRequest] = {}
        """The last request of each connection."""
        self._producers: dict[ClientConnection, str] = {}
        """Connection of a producer -> its transactional id, or empty."""

    def intercept(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        """Log a request, and its response when it is sent."""
        route = request.route
        self._number += 1
        fields = plain_request(route.key, body, ELEMENTS_KEPT)
        logged = LoggedRequest(
            self._number,
            self._broker.clock.now_ms(),
            APIS[route.key].name,
            version,
            request.client_id,
            request.peer,
            request.listener.name,
            request.listener.node_id,
            fields,
        )
        self._requests.append(logged)
        connection = request.connection
        self.current[connection] = logged
        if route.key in PRODUCER_APIS:
            self._producers[connection] = fields.get("transactional_id") or self._producers.get(connection, "")
        if len(self.current) > 2 * len(self._broker.connections) + 10:
            self._forget_closed()
        began_ms = self._broker.clock.monotonic_ms()

        def answered(answer: Any) -> Any:
            codes = dict.fromkeys(error_codes(readable_answer(route.key, version, answer)))
            logged.errors = tuple(error_name(code) for code in list(codes)[:ERRORS_KEPT])
            if logged.state == "waits":
                logged.state = "answered"
            logged.took_ms = self._broker.clock.monotonic_ms() - began_ms
            return answer

        return intercept_response(handle, request, body, version, answered)

    @property
    def requests(self) -> deque[LoggedRequest]:
        """The last requests, newest last."""
        peers = {each.peer for each in self._broker.connections}
        for each in self._requests:
            if each.state == "waits" and each.client not in peers:
                each.state = "closed"
        return self._requests

    def producers(self) -> list[tuple[ClientConnection, str]]:
        """Return the open connections of producers, each with its transactional id, or an empty text."""
        self._forget_closed()
        return list(self._producers.items())

    def _forget_closed(self) -> None:
        is_open = self._broker.connections
        self.current = {each: logged for each, logged in self.current.items() if each in is_open}
        self._producers = {each: id_ for each, id_ in self._producers.items() if each in is_open}
