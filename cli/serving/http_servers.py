"""HTTP servers beside a broker: for metrics, for the control API, and ports that answer 404.

Loaded only if one of them is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from stuntbroker.cli.serving.listening_advice import listening_advice
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.observation.metrics_server import MetricsServer
    from stuntbroker.broker.server import Broker
    from stuntbroker.cli.serving.control_option import ControlAddress
    from stuntbroker.control.server import ControlServer
    from stuntbroker.protocol.messages.create_topics_request import CreatableTopic

NOT_FOUND: Final = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 37\r\nConnection: close\r\n\r\n"
    b"Stuntbroker has nothing on this port\n"
)
REQUEST_S_MAX: Final = 5.0


class HttpServers:
    """The HTTP servers of a broker, and the broker itself, which the control API may replace."""

    def __init__(self, broker: Broker, ready: dict[str, str]) -> None:
        """`ready`: addresses of all servers by name, to which these add their own."""
        self.broker = broker
        """The broker that is served now."""
        self._ready = ready
        self._metrics: MetricsServer | None = None
        self._control: ControlServer | None = None

    async def start_metrics(self, host: str, port: int) -> None:
        """Serve metrics. Raises StorageError."""
        from stuntbroker.broker.observation.metrics_server import MetricsServer

        self._metrics = MetricsServer(self.broker)
        with _explained(host, port, "--metrics-port", "--host"):
            self._ready["metrics"] = str((await self._metrics.start(host, port)).reachable())

    async def start_control(self, address: ControlAddress, topics: Sequence[CreatableTopic]) -> None:
        """Apply the plan, and serve the control API. Raises StorageError.

        `topics`: created in each broker that replaces this one.
        """
        from stuntbroker.control.control import Control
        from stuntbroker.control.host import BrokerHost
        from stuntbroker.control.server import ControlServer

        host = BrokerHost(Control(self.broker), topics)
        host.on_replaced.append(self._follow)
        if address.plan is not None:
            from stuntbroker.broker.connections.listener import CannotListen
            from stuntbroker.control.plan import apply_plan
            from stuntbroker.control.rules.faults import FaultError

            try:
                await apply_plan(host.control, address.plan, is_start=True)
            except (FaultError, StorageError, CannotListen) as fault:
                advice = f"; {fault.hint}" if isinstance(fault, FaultError) else ""
                raise StorageError(f"the plan cannot be applied: {fault}{advice}") from fault
        self._control = ControlServer(host, address.token)
        with _explained(address.host, address.port, "--control", "--control"):
            reachable = (await self._control.start(address.host, address.port)).reachable()
        self._ready["control"] = f"http://{reachable}"
        if address.is_token_generated:
            self._ready["control-token"] = address.token

    async def answer_not_found(self, host: str, ports: Sequence[int]) -> None:
        """Answer 404 on ports where clients expect a schema registry, an HTTP proxy or Redpanda's administration.

        Until the process ends. Raises StorageError.
        """
        for port in ports:
            with _explained(host, port, "--not-found-ports", "--host"):
                await asyncio.start_server(_answer_not_found, host, port)

    def stop(self) -> None:
        """Stop the servers for metrics and control."""
        for server in (self._metrics, self._control):
            if server is not None:
                server.stop()

    def _follow(self, successor: Broker) -> None:
        self.broker = successor
        if self._metrics is not None:
            self._metrics.follow(successor)


async def _answer_not_found(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S_MAX)
        writer.write(NOT_FOUND)
        await writer.drain()
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return  # A port check that sends no request.
    finally:
        writer.close()


@contextmanager
def _explained(host: str, port: int, port_from: str, host_from: str) -> Iterator[None]:
    """Turn an address that cannot be bound into a StorageError with advice; `port_from`, `host_from`: options that gave it."""
    try:
        yield
    except OSError as fault:
        advice = listening_advice(fault, port_from, host_from)
        raise StorageError(f"cannot listen on {host}:{port}: {fault.strerror}; {advice}") from fault
