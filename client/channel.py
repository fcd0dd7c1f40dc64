"""Many in-flight requests on one connection, for blocking callers: aiokafka's connection on a private event loop.

The loop runs in the calling thread, and only while the caller waits; there is no other thread. Between two calls, bytes
stay in the kernel's buffers. Loops and channels belong to the process that created them: after a fork the child has to
create its own; those that it inherited raise ClientError.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError

from stuntbroker.client.cluster import TIMEOUT_S, Cluster
from stuntbroker.client.connection import (
    API_VERSIONS_FIRST,
    CLIENT_ID,
    CONNECT_S_MAX,
    REQUEST_S_MAX,
    WAIT_S_MIN,
    Deadline,
    chosen_version,
    reason,
)
from stuntbroker.client.errors import ClientError, ConnectionFailed, check
from stuntbroker.client.producer.states import State
from stuntbroker.client.requests import Answer, Call
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import API_VERSIONS, APIS
from stuntbroker.protocol.features import TRANSACTION_VERSION
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.primitives import INT16_MAX, DecodeError, Message

if TYPE_CHECKING:
    from stuntbroker.client.blocking import Connections, TransactionalProducer

Result = TypeVar("Result")
PRODUCER_CLIENT_ID: Final = f"{CLIENT_ID}-producer"
"""Differs from the client id of administration, by which a broker recognises what fenced a producer."""


_loops: weakref.WeakSet[Loop] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """Replace the selectors in a forked child, which shares them with its parent: closing inherited sockets must not use them."""
    for loop in _loops:
        loop.forget_selector()


os.register_at_fork(after_in_child=_leave_to_the_parent)


class Loop:
    """An event loop used only by the calling thread."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._loop = asyncio.SelectorEventLoop()
        _loops.add(self)

    def forget_selector(self) -> None:
        """Replace the selector: open transports get no more events."""
        self._loop._selector = selectors.DefaultSelector()  # type: ignore[attr-defined]

    @property
    def usable(self) -> bool:
        """Whether the loop is open and was created by this process, not by its parent."""
        return os.getpid() == self._process_id and not self._loop.is_closed()

    def close(self) -> None:
        """Close the loop, after its transports have been closed."""
        if self.usable:
            if asyncio._get_running_loop() is None:
                self._loop.run_until_complete(asyncio.sleep(0))  # Lets the loop notify the closed transports.
            self._loop.close()

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        """Start a task, which advances only while `run` is waiting."""
        return self._loop.create_task(work)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end and return its result. Raises ClientError after a fork, or inside a running loop."""
        try:
            self.check()
            if asyncio._get_running_loop() is not None:
                raise ClientError("an event loop runs in this thread: use the blocking client from another one")
        except ClientError:
            work.close()
            raise
        return self._loop.run_until_complete(work)

    def check(self) -> None:
        """Raise ClientError unless this process created the loop."""
        if os.getpid() != self._process_id:
            raise ClientError(
                f"this connection belongs to process {self._process_id}, not to its child {os.getpid()}: "
                "make a new one after the fork"
            )


class Pending(Generic[Answer]):
    """The future response to a request that was sent."""

    def __init__(self, channel: Channel, key: int, future: asyncio.Future[Answer]) -> None:
        self.future = future
        future.add_done_callback(_retrieve_exception)
        self._channel = channel
        self._key = key

    def done(self) -> bool:
        """Return whether the response has arrived, or the request has failed."""
        return self.future.done()

    def result(self) -> Answer:
        """Return the response; only after `done`. Raises ConnectionFailed."""
        try:
            return self.future.result()
        except _FAULTS as fault:
            self._channel.close()
            raise self._channel.failed(APIS[self._key].name, fault) from fault


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Mark a future's exception as retrieved, so that asyncio does not log it if the result is never read."""
    if not future.cancelled():
        future.exception()


_FAULTS: Final = (KafkaError, OSError, EOFError, DecodeError, IndexError, asyncio.CancelledError, asyncio.TimeoutError)
"""Exceptions that aiokafka raises if a connection breaks or sends invalid data."""


class Channel:
    """A connection to one broker with negotiated versions, like `connection.Connection`, but for many in-flight requests.

    Responses arrive in the order of the requests. After ConnectionFailed, the channel cannot be used any more.
    """

    def __init__(self, loop: Loop, address: Address, deadline: Deadline) -> None:
        self.address = address
        self.transaction_version = 0
        """Finalized level of `transaction.version` in the cluster; 0 if there is none."""
        self._loop = loop
        self.versions: dict[int, tuple[int, int]] = {}
        self._wire: AIOKafkaConnection | None = None
        try:
            self._loop.run(self._connect(max(WAIT_S_MIN, deadline.left_s(CONNECT_S_MAX))))
            self._agree(deadline)
        except _FAULTS as fault:
            self.close()
            raise ConnectionFailed(f"cannot connect to {address}: {_reason_of(fault)}") from fault
        except BaseException:
            self.close()
            raise

    async def _connect(self, wait_s: float) -> None:
        host, port = self.address
        self._wire = AIOKafkaConnection(host, port, client_id=CLIENT_ID, request_timeout_ms=int(REQUEST_S_MAX * 1000))
        await asyncio.wait_for(self._wire.connect(), wait_s)

    def _agree(self, deadline: Deadline) -> None:
        """Request ApiVersions again: aiokafka's own request does not return features."""
        request = ApiVersionsRequest(CLIENT_ID, "0")
        assert self._wire is not None
        first = min(API_VERSIONS_FIRST, self._wire._versions.get(API_VERSIONS, (0, 0))[1])
        answer = self.ask(API_VERSIONS, first, request, ApiVersionsResponse, deadline)
        check(f"ApiVersions to {self.address}", answer.error_code)
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        for entry in answer.finalized_features:
            if entry.name == TRANSACTION_VERSION:
                self.transaction_version = entry.max_version_level

    def close(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            wire, self._wire = self._wire, None
            if self._loop.usable:
                wire.close()

    def version(self, key: int, least: int = 0, most: int = INT16_MAX) -> int:
        """Return the highest version of an API, from `least` to `most`, that both sides have. Raises UnsupportedVersion."""
        return chosen_version(self.address, self.versions, key, least, most)

    def send(self, key: int, version: int, request: Message, answer: type[Answer]) -> Pending[Answer]:
        """Send a request without waiting for the response. Raises ConnectionFailed."""

        if self._wire is None:
            raise ConnectionFailed(f"{APIS[key].name} to {self.address}: the connection is closed")
        self._loop.check()  # Before a byte goes out on a socket that a parent uses too.
        try:
            return Pending(self, key, self._loop.start(self._wire.send(Call(key, version, request, answer))))
        except _FAULTS as fault:
            self.close()
            raise self.failed(APIS[key].name, fault) from fault

    def ask(self, key: int, version: int, request: Message, answer: type[Answer], deadline: Deadline) -> Answer:
        """Send a request, wait for its response, and return it. Raises ConnectionFailed."""
        pending = self.send(key, version, request, answer)
        self.wait([pending], deadline.left_s(REQUEST_S_MAX))
        if not pending.done():
            self.close()
            raise ConnectionFailed(f"{APIS[key].name} to {self.address}: no answer in time")
        return pending.result()

    def wait(self, pending: Collection[Pending[Any]], wait_s: float, all_of_them: bool = True) -> None:
        """Wait, for at most `wait_s` seconds, until all (or one) of these responses have arrived or failed."""
        wait_for(self._loop, pending, wait_s, all_of_them)

    def failed(self, name: str, fault: BaseException) -> ConnectionFailed:
        """Return the error for a connection that failed during the request `name`."""
        return ConnectionFailed(f"{name} to {self.address}: {_reason_of(fault)}")


def wait_for(loop: Loop, pending: Collection[Pending[Any]], wait_s: float, all_of_them: bool = True) -> None:
    """Wait as `Channel.wait` does, for responses on any channels of one loop."""
    when = asyncio.ALL_COMPLETED if all_of_them else asyncio.FIRST_COMPLETED
    futures = [each.future for each in pending]
    if futures:
        loop.run(asyncio.wait(futures, timeout=max(WAIT_S_MIN, wait_s), return_when=when))


def _reason_of(fault: BaseException) -> str:
    if isinstance(fault, KafkaError) and fault.__cause__ is not None:
        return reason(fault.__cause__)
    return reason(fault)


class ChannelCluster(Cluster):
    """A cluster, with one channel to each broker."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        timeout_s: float = TIMEOUT_S,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(bootstrap, timeout_s, now_s, sleep)
        self.loop = Loop()
        self._producers: list[TransactionalProducer] = []
        self._producer_connections: Connections | None = None
        """Connections of all producers; they are served by a thread."""

    def close(self) -> None:
        """Close all connections, and their loop. Open transactions of producers are not aborted."""
        super().close()
        connections, self._producer_connections = self._producer_connections, None
        try:
            if connections is not None:
                for producer in self._producers:
                    producer.stop(leave_open=True)
        finally:
            if connections is not None:
                connections.stop()
            self.loop.close()

    def producer(self, transactional_id: str, **options: Any) -> TransactionalProducer:
        """Return a started producer, whose time-outs are that of the cluster. Raises ConnectionFailed, TimedOut."""
        from stuntbroker.client.blocking import TransactionalProducer

        self.loop.check()
        if not self.loop.usable:
            raise ClientError("the cluster's connections are closed")
        if self._producer_connections is None:
            self._producer_connections = self.retrying(self._connect_producers)
        timeout_ms = max(1, int(self._timeout_s * 1000))
        producer = TransactionalProducer(
            connections=self._producer_connections,
            transactional_id=transactional_id,
            max_block_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            **options,
        )
        producer.start()
        self._producers = [each for each in self._producers if each.state is not State.CLOSED]
        self._producers.append(producer)
        return producer

    def _connect_producers(self) -> Connections:
        from stuntbroker.client.blocking import Connections

        connections = Connections(
            bootstrap_servers=[str(address) for address in self.bootstrap],
            client_id=PRODUCER_CLIENT_ID,
            request_timeout_ms=max(1, int(min(REQUEST_S_MAX, self._timeout_s) * 1000)),
        )
        try:
            connections.start()
        except KafkaError as fault:
            raise ConnectionFailed(f"cannot connect to {self.bootstrap[0]}: {_reason_of(fault)}") from fault
        return connections

    def channel(self, node_id: int) -> Channel:
        """Return the connection to a node, opened when it is first needed. Raises ConnectionFailed."""
        node = self._node(node_id)
        assert isinstance(node, Channel)
        return node

    def _open(self, address: Address) -> Channel:
        return Channel(self.loop, address, self._deadline)
