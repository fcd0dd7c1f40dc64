"""The open connections of a broker's clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stuntbroker.broker.connections.request_memory import RequestMemory

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.connections.client_connection import ClientConnection
    from stuntbroker.broker.observation.events import Events


class OpenConnections:
    """All connections of clients, of which there are `max.connections` at most."""

    def __init__(self, config: BrokerConfig, clock: Clock, events: Events) -> None:
        self._config = config
        self._clock = clock
        self._events = events
        self._connections: set[ClientConnection] = set()
        self.request_memory = RequestMemory(config["queued.max.request.bytes"], self._connections, events.warning)
        """The receive buffers of all connections."""

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: ClientConnection) -> bool:
        return connection in self._connections

    def admit(self, connection: ClientConnection) -> bool:
        """Add a connection; return False when there are `max.connections` already."""
        # Unlike Kafka: in Kafka, a further connection waits until another one ends.
        if len(self._connections) >= self._config["max.connections"]:
            self._events.warning("connection_refused", client=connection.peer, max_connections=len(self._connections))
            return False
        connection.active_ms = self._clock.client_ms()
        self._connections.add(connection)
        self.request_memory.resize(connection, 0, connection.room)
        return True

    def forget(self, connection: ClientConnection) -> None:
        """Remove a closed connection, unless it was not admitted."""
        if connection in self._connections:
            self._connections.remove(connection)
            self.request_memory.forget(connection, connection.room)
