"""What the parts of a broker know of a connection, so that none of them needs the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.requests.router import Handler, Route


class ClientConnection(Protocol):
    """A client's connection; `connection.Connection` says what each of these means."""

    transport: Any
    listener: Listener
    client_id: str
    peer: str
    host: str
    local: tuple[str, int]
    route: Route
    open: bool
    room: int
    active_ms: int
    is_paused: bool
    on_close: Callable[[], None] | None

    def handle_later(self, handle: Handler, request: Any, version: int) -> None:
        """Handle the request under way, which was kept, and answer it."""

    def reply(self, response: Any) -> None:
        """Answer the request under way."""

    def fail(self, event: str, **facts: Any) -> None:
        """Close the connection with one line in the log."""

    def close(self) -> None:
        """Close it when everything that was answered has been sent."""

    def abort(self) -> None:
        """Close it at once."""

    def read_on(self) -> None:
        """Go on reading a request that is received in part."""

    def pause_writing(self) -> None:
        """Stop handling requests."""

    def resume_writing(self) -> None:
        """Go on handling requests."""

    def has_stalled(self) -> bool:
        """Whether a request that came in part has stopped growing."""

    def was_active(self) -> bool:
        """Return whether a request has arrived since the last call, or is in progress."""

    def give_back(self) -> None:
        """Give back a large buffer that is not in use."""
