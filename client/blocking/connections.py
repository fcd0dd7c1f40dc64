"""Connections that several blocking producers share, and the thread that serves them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from stuntbroker.client.blocking.loop_thread import LoopThread, same_options
from stuntbroker.client.blocking.served import Served
from stuntbroker.client.connections import connections as asynchronous
from stuntbroker.client.connections.options import ConnectionOptions


class Connections:
    """One connection to each broker of a cluster, which producers of a process may share.

        with Connections(bootstrap_servers="localhost:9092") as connections:
            producer = TransactionalProducer(connections=connections, transactional_id="orders-1")

    Options are those of the asyncio class of the same name; `start` checks their values.
    """

    @same_options(asynchronous.Connections)
    def __init__(self, **options: Any) -> None:
        if unknown := sorted(options.keys() - {"bootstrap_servers", "client_id", *ConnectionOptions.__annotations__}):
            raise TypeError(f"unknown option {unknown[0]!r} of Connections")
        self._options = options
        self._served: Served[asynchronous.Connections] = Served("connections")

    def start(self) -> None:
        """Connect to a bootstrap server. Raises AuthenticationError, or aiokafka's KafkaConnectionError if none answers.

        Raises IllegalStateError if the connections were started before, or another thread stops them meanwhile.
        """

        async def begin() -> asynchronous.Connections:
            return await asynchronous.Connections(**self._options).__aenter__()

        self._served.start(begin)

    def stop(self) -> None:
        """Close the connections. May be called twice. Producers that use them have to be stopped before."""
        self._served.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_open(self) -> bool:
        """Whether the connections are started, and not closed."""
        return self._served.is_running

    @property
    def thread(self) -> LoopThread:
        """The thread that serves the connections. Raises IllegalStateError before `start` and after `stop`."""
        return self._served.running()[0]

    @property
    def twin(self) -> asynchronous.Connections:
        """The asyncio connections that the thread serves. Raises IllegalStateError before `start` and after `stop`."""
        return self._served.running()[1]
