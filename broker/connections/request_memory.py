"""The limit on the receive buffers of all connections together: `queued.max.request.bytes`.

A buffer grows only as the bytes of a request arrive. When all buffers together have reached the limit, the broker does not read
from connections that need a larger buffer until others release memory. Small buffers are always granted, so that small requests
are still served. One connection at a time may exceed the limit, so that clients that each hold part of the memory do not wait for
each other. A connection whose client stops in the middle of a request while others wait for memory is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientConnection

SMALL_BUFFER_BYTES_MAX: Final = 65_536
"""Bytes up to which a buffer may always grow, regardless of the limit."""
NO_LIMIT: Final = 0
"""A limit of this value or below means no limit."""


class RequestMemory:
    """Counts the bytes of the receive buffers."""

    def __init__(self, limit: int, connections: Iterable[ClientConnection], log: Callable[..., Any]) -> None:
        self.limit = limit
        """In bytes; NO_LIMIT or below for no limit."""
        self.used = 0
        self._connections = connections
        self._log = log
        self._waiting: dict[ClientConnection, None] = {}
        self._exempt_connection: ClientConnection | None = None
        """The connection that may exceed the limit until its request is complete."""
        self._is_used_up = False

    def admit_resize(self, connection: ClientConnection, before: int, after: int) -> bool:
        """Let a buffer change its size, in bytes, and return True; or let its connection wait until `read_on` is called."""
        more = after - before
        if (
            after <= SMALL_BUFFER_BYTES_MAX
            or connection is self._exempt_connection
            or self._has_room(more)
            or self._reclaim(more)
        ):
            self._waiting.pop(connection, None)
            return True
        if self._exempt_connection is None:
            self._exempt_connection = connection
            self._waiting.pop(connection, None)
            return True
        self._waiting[connection] = None
        if not self._is_used_up:
            self._is_used_up = True
            self._log(
                "request_memory_used_up",
                limit=self.limit,
                hint="raise queued.max.request.bytes, or send smaller requests",
            )
        return False

    @property
    def is_short(self) -> bool:
        """Whether a connection waits for memory, so that unused buffers should be released."""
        return bool(self._waiting)

    def resize(self, connection: ClientConnection, before: int, after: int) -> None:
        """Count a buffer that changes its size, in bytes."""
        self.used += after - before
        if after < before:
            if connection is self._exempt_connection:
                self._exempt_connection = None
            if self._waiting:
                self._wake()

    def forget(self, connection: ClientConnection, size: int) -> None:
        """Remove a closed connection whose buffer had `size` bytes."""
        self._waiting.pop(connection, None)
        self.resize(connection, size, 0)

    def close_stalled(self) -> None:
        """Close connections whose request has stopped in the middle while others wait for memory. Called periodically."""
        if not self._waiting:
            self._is_used_up = False
            return
        stalled = [connection for connection in self._connections if connection.has_stalled()]
        for connection in stalled:
            connection.fail(
                "request_stalled", reason="its incomplete request holds memory that other connections wait for"
            )
            connection.abort()

    def _has_room(self, more: int) -> bool:
        return self.limit <= NO_LIMIT or self.used + more <= self.limit

    def _reclaim(self, more: int) -> bool:
        """Release the unused large buffers of all connections; return whether there is enough memory now."""
        for connection in list(self._connections):
            connection.release_buffer()
        return self._has_room(more)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.read_on()
