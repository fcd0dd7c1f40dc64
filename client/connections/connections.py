"""aiokafka's client as the producer uses it: a connection to each broker, the versions on both sides, and metadata."""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, Unpack

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownTopicOrPartitionError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition

from stuntbroker.client import errors as blocking_errors
from stuntbroker.client.connections.authentication import (
    TokenProvider,
    check_authentication,
    is_authenticated,
    uses_tokens,
)
from stuntbroker.client.connections.bootstrap import MetadataUpdates, OnAuthenticated, bootstrap
from stuntbroker.client.connections.exchanges import Wire
from stuntbroker.client.connections.frames import read_without_task
from stuntbroker.client.connections.known_partitions import KnownPartitions
from stuntbroker.client.connections.options import (
    BACKOFF_MS_MIN,
    CONNECTION_DEFAULTS,
    ConnectionOptions,
    check_bootstrap,
)
from stuntbroker.client.logger import log
from stuntbroker.client.requests import Answer, Call
from stuntbroker.client.transactional_errors import (
    AuthenticationError,
    DisconnectedError,
    IllegalStateError,
    UnsupportedVersionError,
)
from stuntbroker.client.versions import API_VERSIONS_FIRST, SOFTWARE, chosen_version
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import API_VERSIONS
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.primitives import INT16_MAX, Message

_numbers = itertools.count(1)
CLOSE_S_MAX: Final = 1.0
"""How long the end of a connection may take, in seconds: a broker that hangs reads nothing, and does not end TLS."""


class Link:
    """A connection, with its broker's API versions and features."""

    __slots__ = ("_chosen", "address", "features", "versions", "wire")

    def __init__(self, wire: Wire, answer: ApiVersionsResponse) -> None:
        self.wire = wire
        self.address = Address(wire.connection.host, wire.connection.port)
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        """API key -> (lowest, highest) version of the broker."""
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        """Name -> finalized level in the cluster (KIP-584)."""
        self._chosen: dict[tuple[int, int, int], int] = {}

    def version(self, key: int, least: int = 0, most: int = INT16_MAX) -> int:
        """Return the highest version of an API that both sides have. Raises UnsupportedVersionError."""
        chosen = self._chosen.get((key, least, most))
        if chosen is None:
            try:
                chosen = chosen_version(self.address, self.versions, key, least, most)
            except blocking_errors.UnsupportedVersion as fault:
                raise UnsupportedVersionError(str(fault)) from None
            self._chosen[key, least, most] = chosen
        return chosen


def guard_connections(
    client: AIOKafkaClient,
    wanted_topics: Collection[str] | None = None,
    on_authenticated: OnAuthenticated | None = None,
) -> None:
    """Keep connection errors from ending aiokafka's background tasks, which would not be restarted.

    `wanted_topics`: the topics that a broker may create when metadata are read; None for all that are read.
    `on_authenticated`: called for each new connection with credentials or certificates.

    A write to a connection that was just closed raises KafkaConnectionError on every event loop: asyncio's own loops ignore
    such a write, uvloop raises RuntimeError. Any other failure to connect is treated as if the broker were down. Token providers
    get a time-out, and `bootstrap` reports the reasons of failures.
    """
    get_connection = client._get_conn

    async def get_guarded(node_id: int, **options: Any) -> AIOKafkaConnection | None:
        try:
            connection = await get_connection(node_id, **options)
        except Exception as fault:  # For example from a token provider, which may work the next time.
            log.warning("no connection to broker %s: %r", node_id, fault)
            client.force_metadata_update()
            return None
        is_known = connection is not None and "send" in vars(connection)
        if on_authenticated is not None and not is_known and is_authenticated(client):
            connection = await _authenticated(client, node_id, connection, on_authenticated)
        if connection is not None and not is_known:
            connection.send = partial(_send, connection, connection.send, wanted_topics)
        return connection

    client._get_conn = get_guarded
    client.bootstrap = partial(bootstrap, client)
    client.close = partial(_close, client, client.close)
    client._metadata_update = MetadataUpdates(client, on_authenticated)
    if client._sasl_oauth_token_provider is not None:
        client._sasl_oauth_token_provider = TokenProvider(client._sasl_oauth_token_provider, client._request_timeout_ms)


async def _authenticated(
    client: AIOKafkaClient,
    node_id: int,
    connection: AIOKafkaConnection | None,
    on_authenticated: OnAuthenticated,
) -> AIOKafkaConnection | None:
    """Return a new connection if the broker has accepted its credentials, else None."""
    if connection is not None and uses_tokens(client):
        try:
            await connection._do_version_lookup()
        except (KafkaError, TimeoutError):
            connection = None
    if connection is not None:
        on_authenticated(None)
        return connection
    try:
        await _check_node(client, node_id)
    except AuthenticationError as refusal:
        on_authenticated(refusal)
    return None


async def _check_node(client: AIOKafkaClient, node_id: int) -> None:
    """Raise AuthenticationError if a connection to a broker has failed because they do not accept each other."""
    broker = client.cluster.broker_metadata(node_id)
    if broker is not None and is_authenticated(client):
        await check_authentication(client, Address(broker.host, broker.port))


async def _close(client: AIOKafkaClient, close: Callable[[], Awaitable[None]]) -> None:
    """Close all connections of a client, even if the task that refreshes its metadata has failed.

    Data that a broker has not read within CLOSE_S_MAX is dropped: aiokafka would wait for it without a limit.
    """
    reading, client._sync_task = client._sync_task, None
    if reading is not None:
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled() and (fault := reading.exception()) is not None:
            log.warning("metadata was not read any more: %r", fault)
    transports = [each._writer.transport for each in client._conns.values() if each._writer is not None]
    closing = asyncio.ensure_future(close())
    try:
        await asyncio.wait({closing}, timeout=CLOSE_S_MAX)
    finally:
        if not closing.done():
            for transport in transports:
                transport.abort()
    await closing


def _send(
    connection: AIOKafkaConnection,
    send: Callable[..., Any],
    wanted_topics: Collection[str] | None,
    *arguments: Any,
    **options: Any,
) -> Any:
    if wanted_topics is not None and isinstance(request := arguments[0], MetadataRequest):
        # Unlike Kafka: in Java, a topic that was deleted is created again by each refresh of the next five minutes.
        request._allow_auto_topic_creation = not set(wanted_topics).isdisjoint(request._topics or ())
    try:
        answer = send(*arguments, **options)
    except RuntimeError as fault:
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"connection to {connection.host}:{connection.port} broken: {fault}") from fault
    return _closing_when_late(connection, answer) if isinstance(arguments[0], MetadataRequest) else answer


async def _closing_when_late(connection: AIOKafkaConnection, answer: Awaitable[Any]) -> Any:
    """Await a response; close the connection on a time-out, because aiokafka would send the next Metadata request over it."""
    try:
        return await answer
    except TimeoutError:
        connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        raise


class SharedConnections(Protocol):
    """Connections that producers can share: `Connections`, of this package or of `client.blocking`."""

    @property
    def is_open(self) -> bool:
        """Whether the connections are started, and not closed."""


class Connections:
    """One connection to each broker of a cluster, which producers may share. Requests on a connection are sent in order.

        async with Connections(bootstrap_servers="localhost:9092") as connections:
            producer = TransactionalProducer(connections=connections, transactional_id="orders-1")

    Connections belong to one event loop, and are not usable after a fork.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Create the object; `start` connects. Needs a running event loop.

        `options`: request_timeout_ms, retry_backoff_ms, metadata_max_age_ms, connections_max_idle_ms and the security options,
        as for TransactionalProducer.
        """
        check_bootstrap(bootstrap_servers)
        self._client = AIOKafkaClient(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id or f"stuntbroker-{next(_numbers)}",
            **options | {"retry_backoff_ms": max(options.get("retry_backoff_ms", 100), BACKOFF_MS_MIN)},
        )
        self._wanted_topics: Counter[str] = Counter()
        """Topics without metadata that records are waiting for -> number of waiting calls."""
        guard_connections(self._client, self._wanted_topics)
        self.is_open = False
        """Whether the connections are started, and not closed."""
        self._starting: asyncio.Task[None] | None = None
        """The task of `start`, until that ends."""
        self._stops = 0
        """Number of calls of `stop`."""
        self._links: dict[int, Link] = {}
        self.partitions = KnownPartitions(self._client.cluster)
        """The partitions of each topic."""

    async def start(self) -> None:
        """Connect to a bootstrap server and read the metadata. Raises AuthenticationError, aiokafka's KafkaConnectionError.

        Raises IllegalStateError if the connections are open, or are stopped meanwhile.
        """
        if self.is_open or self._starting is not None:
            raise IllegalStateError("start(): the connections were started before")
        stops = self._stops
        starting = self._starting = asyncio.ensure_future(self._client.bootstrap())
        try:
            await asyncio.wait({starting})
            fault = None if starting.cancelled() else starting.exception()
            if starting.cancelled() or self._stops != stops:
                raise IllegalStateError("start(): the connections were stopped meanwhile")
            if fault is not None:
                raise fault
            self.is_open = True
        except BaseException:
            starting.cancel()
            await asyncio.wait({starting})
            await self._client.close()
            raise
        finally:
            self._starting = None

    async def stop(self) -> None:
        """Close all connections."""
        self.is_open = False
        self._stops += 1
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        await self._client.close()
        for link in self._links.values():
            link.wire.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            text = f"connections of {self._client._client_id!r} were not closed: stop them, or the producer that has made them"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # --- metadata

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic that have a leader."""
        return sorted(self._client.cluster.available_partitions_for_topic(topic) or ())

    async def wait_for_topic(self, topic: str) -> tuple[int, ...]:
        """Refresh the metadata until it has the topic, without a time-out; return the topic's partitions.

        Raises AuthenticationError, or aiokafka's TopicAuthorizationFailedError.
        """
        self._wanted_topics[topic] += 1
        try:
            return await self._wait_for_topic(topic)
        finally:
            self._wanted_topics[topic] -= 1
            if not self._wanted_topics[topic]:
                del self._wanted_topics[topic]

    async def _wait_for_topic(self, topic: str) -> tuple[int, ...]:
        while not self.partitions.of(topic):
            if not self.is_open:
                raise IllegalStateError("the connections are closed, or not started")
            if is_authenticated(self._client) and (node_id := self.any_node()) is not None:
                with suppress(DisconnectedError):
                    await self.link(node_id)  # aiokafka retries a refused connection for ever.
            with suppress(UnknownTopicOrPartitionError):  # Not within the time-out of one request.
                await self._client._wait_on_metadata(topic)
            if not self.partitions.of(topic):
                await asyncio.sleep(self._client._retry_backoff)
        return self.partitions.of(topic)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the node id of a partition's leader, None while it is not known."""
        node_id = self._client.cluster.leader_for_partition(TopicPartition(topic, partition))
        return None if node_id is None or node_id == -1 else int(node_id)

    def leader_address(self, topic: str, partition: int) -> Address | None:
        """Return the address of a partition's leader, None while it is not known."""
        return leader_address(self._client, topic, partition)

    def refresh(self) -> asyncio.Future[Any]:
        """Start a refresh of the metadata in the background; return its future."""
        future: asyncio.Future[Any] = self._client.force_metadata_update()
        return future

    async def read_metadata(self) -> None:
        """Refresh the metadata until a broker has given them, without a time-out."""
        while not await self.refresh():
            await asyncio.sleep(self._client._retry_backoff)

    def any_node(self) -> int | None:
        """Return a broker of the cluster at random; None when none is known."""
        node_id: int | None = self._client.get_random_node()
        return node_id

    # --- requests

    def open_link(self, node_id: int) -> Link | None:
        """Return the connection to a broker, None if it is not open."""
        link = self._links.get(node_id)
        return link if link is not None and self.is_open and link.wire.connection.connected() else None

    async def link(self, node_id: int) -> Link:
        """Return the connection to a broker, opened when it is first needed. Raises DisconnectedError, AuthenticationError."""
        if not self.is_open:
            raise IllegalStateError("the connections are closed, or not started")
        link = self.open_link(node_id)
        if link is not None:
            return link
        if self._client.cluster.broker_metadata(node_id) is None:
            await self.refresh()
        connection = await self._client._get_conn(node_id)
        if connection is None:
            await _check_node(self._client, node_id)
            broker = self._client.cluster.broker_metadata(node_id)
            where = "" if broker is None else f" at {Address(broker.host, broker.port)}, its advertised address"
            raise DisconnectedError(f"no connection to broker {node_id}{where}")
        read_without_task(connection)
        try:
            link = await self._request_versions(connection)
        except DisconnectedError:
            if uses_tokens(self._client):
                await _check_node(self._client, node_id)
            raise
        known = self._links.get(node_id)
        if known is not None and known.wire.connection is connection:
            link.wire.close()  # Another caller was faster.
            return known
        if known is not None:
            known.wire.close()
        self._links[node_id] = link
        return link

    async def _request_versions(self, connection: AIOKafkaConnection) -> Link:
        """Request API versions and features: aiokafka's own ApiVersions request returns no features."""
        version = min(API_VERSIONS_FIRST, connection._versions.get(API_VERSIONS, (0, 0))[1])
        wire = Wire(connection)
        return Link(
            wire, await wire.ask(Call(API_VERSIONS, version, ApiVersionsRequest(*SOFTWARE), ApiVersionsResponse))
        )

    async def ask(
        self,
        node_id: int,
        key: int,
        request: Message,
        answer: type[Answer],
        least: int = 0,
        most: int = INT16_MAX,
    ) -> Answer:
        """Send a request at the highest version from `least` to `most` that both sides have, and return the response.

        Raises DisconnectedError: the request may or may not have been applied. Raises UnsupportedVersionError,
        AuthenticationError.
        """
        link = await self.link(node_id)
        return await link.wire.ask(Call(key, link.version(key, least, most), request, answer))


def leader_address(client: AIOKafkaClient, topic: str, partition: int) -> Address | None:
    """Return the address of a partition's leader, None while aiokafka's client does not know it."""
    node_id = client.cluster.leader_for_partition(TopicPartition(topic, partition))
    broker = None if node_id is None else client.cluster.broker_metadata(node_id)
    return None if broker is None else Address(broker.host, broker.port)


def check_shared(
    connections: SharedConnections | None, given: tuple[object, ...], security: Mapping[str, Any]
) -> Connections | None:
    """Return shared connections, if any. Raises TypeError, and ValueError if options of connections were given too."""
    if connections is not None and (given != CONNECTION_DEFAULTS or security):
        names = "bootstrap_servers, metadata_max_age_ms, connections_max_idle_ms and security options"
        raise ValueError(f"{names} belong to Connections: pass them to Connections")
    if connections is not None and not isinstance(connections, Connections):
        raise TypeError("connections have to be a stuntbroker.client.Connections")
    return connections
