"""The first connection to a cluster, which tells the client about its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from stuntbroker.client.connections.authentication import connect
from stuntbroker.client.logger import log
from stuntbroker.client.transactional_errors import AuthenticationError, IllegalStateError
from stuntbroker.protocol.addresses import Address

OnAuthenticated = Callable[[AuthenticationError | None], None]
"""Called with the error after a broker and the client have not accepted each other, and with None after they have."""
_CLOSED_HINT: Final = (
    "security_protocol is {}: does the listener need another one? or is this the address of a control API?"
)
BACKOFF_S_MAX: Final = 10.0
"""Longest time, in seconds, for which the bootstrap servers are not asked again."""


async def bootstrap(client: AIOKafkaClient) -> None:
    """Read the cluster's metadata from one of the bootstrap servers, and start the task that refreshes them.

    If no server can be used, this raises AuthenticationError if authentication with one of them fails, else KafkaConnectionError
    with the reason for each server. Raises IllegalStateError in another event loop than the client's. aiokafka's method only
    logs the reasons, and leaves a connection open when it is cancelled.
    """
    if client._loop is not asyncio.get_running_loop():
        raise IllegalStateError(f"client {client._client_id!r} belongs to the event loop in which it was created")
    faults: dict[Address, Exception] = {}
    for host, port, _ in client.hosts:
        address = Address(host, port)
        try:
            await _read_metadata(client, address)
        except Exception as fault:  # For example of a token provider.
            log.info("no metadata from the bootstrap server %s: %r", address, fault)
            faults[address] = fault
        else:
            break
    else:
        raise _no_server(client, faults)
    if client._sync_task is None:
        client._sync_task = asyncio.create_task(client._md_synchronizer())


async def _read_metadata(client: AIOKafkaClient, address: Address) -> None:
    connection = await connect(client, address)
    is_kept = False
    try:
        client.cluster.update_metadata(await connection.send(MetadataRequest([])))
        if not client.cluster.brokers():  # A cluster that starts: aiokafka asks the same server again.
            client._conns["bootstrap", ConnectionGroup.DEFAULT] = connection
            is_kept = True
    finally:
        if not is_kept:
            connection.close()


class MetadataUpdates:
    """aiokafka's `_metadata_update`, which also asks the bootstrap servers if no known broker gives the metadata (KIP-899).

    The known brokers may all have moved. The bootstrap servers are asked with an increasing back-off.
    """

    def __init__(self, client: AIOKafkaClient, on_authenticated: OnAuthenticated | None) -> None:
        self._client = client
        self._update = client._metadata_update
        self._on_authenticated = on_authenticated
        self._backoff_s = 0.0
        self._not_before_s = 0.0
        """When the bootstrap servers may be asked again, in seconds of the event loop's clock."""

    async def __call__(self, cluster: ClusterMetadata, topics: Collection[str]) -> bool:
        """Read the metadata of these topics, of all if there are none; return whether some broker has given them."""
        if await self._update(cluster, topics):
            self._backoff_s = 0.0
            return True
        now_s = asyncio.get_running_loop().time()
        if now_s < self._not_before_s:
            return False
        self._backoff_s = min(max(2 * self._backoff_s, self._client._retry_backoff), BACKOFF_S_MAX)
        self._not_before_s = now_s + self._backoff_s
        for host, port, _ in self._client.hosts:
            address = Address(host, port)
            try:
                if await _read_topics(self._client, address, cluster, topics):
                    return True
            except AuthenticationError as refusal:
                log.warning("no metadata from the bootstrap server %s: %s", address, refusal)
                if self._on_authenticated is not None:
                    self._on_authenticated(refusal)
            except Exception as fault:  # For example of a token provider.
                log.info("no metadata from the bootstrap server %s: %r", address, fault)
        return False


async def _read_topics(
    client: AIOKafkaClient, address: Address, cluster: ClusterMetadata, topics: Collection[str]
) -> bool:
    """Read the metadata of topics from a server; return whether it knows any broker."""
    connection = await connect(client, address)
    try:
        request = MetadataRequest(list(topics) if topics else None)
        request._allow_auto_topic_creation = False
        metadata = await connection.send(request)
    finally:
        connection.close()
    if metadata.brokers:
        cluster.update_metadata(metadata)
    return bool(metadata.brokers)


def _no_server(client: AIOKafkaClient, faults: dict[Address, Exception]) -> Exception:
    """Return the error for servers of which none can be used."""
    for fault in faults.values():
        if isinstance(fault, AuthenticationError):
            return fault
    reasons = "; ".join(f"{address}: {_reason(client, fault)}" for address, fault in faults.items())
    error: Exception = KafkaConnectionError(f"no connection to a bootstrap server: {reasons}")
    error.__cause__ = next(iter(faults.values()), None)
    return error


def _reason(client: AIOKafkaClient, fault: Exception) -> str:
    if isinstance(fault, TimeoutError) and not str(fault):
        return f"no answer within {client._request_timeout_ms} ms"
    text = str(fault) or repr(fault)
    if isinstance(fault, KafkaConnectionError) and text.endswith(" closed"):  # By the broker, which gives no reason.
        text += f" ({_CLOSED_HINT.format(client._security_protocol)})"
    return text
