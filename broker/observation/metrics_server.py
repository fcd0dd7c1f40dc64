"""HTTP/1.1 server of `/metrics` for Prometheus: one request per connection, with limits that protect the broker.

A request may take WAIT_S to arrive, and its response as long to be read. A request head may have HEAD_MAX bytes, CLIENTS_MAX
connections may be open, and scrapes run one at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from stuntbroker.broker.connections.binding import bind
from stuntbroker.broker.observation.http_hosts import is_private_host
from stuntbroker.broker.observation.metrics import Metrics
from stuntbroker.protocol.addresses import Address

if TYPE_CHECKING:
    from stuntbroker.broker.observation.metrics import Measured
    from stuntbroker.broker.services import HasEvents

    class Uses(Measured, HasEvents, Protocol):
        """Parts of the broker that this module uses."""


WAIT_S: Final = 10.0
HEAD_MAX: Final = 8_192
CLIENTS_MAX: Final = 16
PATH: Final = "/metrics"
TEXT: Final = "text/plain; charset=utf-8"


class MetricsServer:
    """The HTTP server. Call `start` and `stop` in the event loop's thread."""

    def __init__(self, broker: Uses, wait_s: float = WAIT_S) -> None:
        self._broker = broker
        self._metrics = Metrics(broker)
        self._wait_s = wait_s
        self._one_at_a_time = asyncio.Lock()
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.StreamWriter] = set()

    def follow(self, broker: Uses) -> None:
        """Serve the metrics of another broker, which has replaced this one."""
        self._broker = broker
        self._metrics = Metrics(broker)

    async def start(self, host: str, port: int) -> Address:
        """Start listening; return the first address. Raises OSError."""
        addresses = []
        for bound in bind(host, port):
            name = bound.getsockname()
            addresses.append(Address(name[0], name[1]))
            self._servers.append(await asyncio.start_server(self._serve, sock=bound, limit=HEAD_MAX))
        return addresses[0]

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        for server in self._servers:
            server.close()
        for writer in self._clients:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= CLIENTS_MAX:
            writer.transport.abort()
            return
        self._clients.add(writer)
        try:
            async with asyncio.timeout(self._wait_s):
                status, kind, body = await self._answer(reader)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            async with asyncio.timeout(self._wait_s):
                writer.write(head.encode() + body)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, EOFError) as fault:  # The client was too slow, or disconnected.
            self._broker.events.debug("metrics_client_dropped", why=type(fault).__name__)
        finally:
            self._clients.discard(writer)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
        """Read a request; return (status, content type, body)."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return "431 Request Header Fields Too Large", TEXT, b"the head of a request may have 8 KiB\n"
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return "400 Bad Request", TEXT, b"not HTTP/1.1\n"
        if not all(is_private_host(line[5:]) for line in lines[1:] if line[:5].lower() == b"host:"):
            return (
                "421 Misdirected Request",
                TEXT,
                b"the Host header must be an address, or a name that is not public\n",
            )
        if words[0] != b"GET":
            return "405 Method Not Allowed", TEXT, b"only GET\n"
        if words[1].partition(b"?")[0] != PATH.encode():
            return "404 Not Found", TEXT, b"there is only /metrics\n"
        async with self._one_at_a_time:
            return "200 OK", CONTENT_TYPE_LATEST, await self._metrics.text()
