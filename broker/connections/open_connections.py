"""The open connections of a broker's clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stuntbroker.broker.configuration.properties import MAX_PER_IP, MAX_PER_IP_OVERRIDES
from stuntbroker.broker.connections.request_memory import RequestMemory

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.connections.client_connection import ClientConnection
    from stuntbroker.broker.observation.events import Events


class OpenConnections:
    """All connections of clients: `max.connections` at most, and `max.connections.per.ip` of one address."""

    def __init__(self, config: BrokerConfig, clock: Clock, events: Events) -> None:
        self._config = config
        self._clock = clock
        self._events = events
        self._connections: set[ClientConnection] = set()
        self._by_host: Counter[str] = Counter()
        self.request_memory = RequestMemory(config["queued.max.request.bytes"], self._connections, events.warning)
        """The receive buffers of all connections."""

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: ClientConnection) -> bool:
        return connection in self._connections

    def admit(self, connection: ClientConnection) -> bool:
        """Add a connection; return False if a limit is reached: `max.connections`, or `max.connections.per.ip`."""
        # Unlike Kafka: in Kafka, a connection above `max.connections` waits until another one ends.
        host_max = self._max_of(connection.host)
        if len(self._connections) >= self._config["max.connections"]:
            self._events.warning("connection_refused", client=connection.peer, max_connections=len(self._connections))
            return False
        if self._by_host[connection.host] >= host_max:
            self._events.warning("connection_refused", client=connection.peer, max_connections_per_ip=host_max)
            return False
        connection.active_ms = self._clock.client_ms()
        self._connections.add(connection)
        self._by_host[connection.host] += 1
        self.request_memory.resize(connection, 0, connection.room)
        return True

    def _max_of(self, host: str) -> int:
        overrides, host_max = self._config[MAX_PER_IP_OVERRIDES], self._config[MAX_PER_IP]
        if not overrides:
            return host_max
        from stuntbroker.broker.configuration.address_counts import counts_by_address

        return counts_by_address(overrides).get(host, host_max)

    def forget(self, connection: ClientConnection) -> None:
        """Remove a closed connection, unless it was not admitted."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._by_host[connection.host] -= 1
            if not self._by_host[connection.host]:
                del self._by_host[connection.host]
            self.request_memory.forget(connection, connection.room)
