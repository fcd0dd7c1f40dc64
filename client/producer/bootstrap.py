"""The first connection to a cluster, which tells the client about its brokers."""

from __future__ import annotations

import asyncio

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from stuntbroker.client.producer.authentication import connect
from stuntbroker.client.producer.errors import AuthenticationError, IllegalStateError
from stuntbroker.client.producer.session import log
from stuntbroker.protocol.addresses import Address


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


async def connect_to_bootstrap(client: AIOKafkaClient) -> bool:
    """Open a connection to a bootstrap server, from which aiokafka reads the next metadata; return whether there is one.

    The known brokers may all have moved, while the bootstrap servers are still there (KIP-899).
    """
    key = ("bootstrap", ConnectionGroup.DEFAULT)
    for host, port, _ in client.hosts:
        try:
            connection = await connect(client, Address(host, port))
        except Exception as fault:  # For example of a token provider.
            log.info("no connection to the bootstrap server %s:%s: %r", host, port, fault)
            continue
        before = client._conns.get(key)
        client._conns[key] = connection
        if before is not None:
            before.close()
        return True
    return False


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
    return str(fault) or repr(fault)
