"""Requests that the broker sends to itself over new connections, like a client, for a test."""

from __future__ import annotations

import asyncio
from struct import pack, unpack
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.personality import versions_of
from stuntbroker.broker.requests.plain_messages import error_codes, error_name, response_class
from stuntbroker.control.rules.faults import NEWER_INSTANCE
from stuntbroker.protocol.api_keys import APIS, INIT_PRODUCER_ID
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.headers import request_header, response_body_at
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.primitives import DecodeError, Message
from stuntbroker.protocol.topic_names import TXN_STATE

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        HasAuthorizer,
        HasConfig,
        HasListeners,
        HasNodes,
        HasTopics,
    )
    from stuntbroker.protocol.addresses import Address

    class OwnRequestPorts(HasAuthorizer, HasConfig, HasListeners, HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


ANSWER_S_MAX: Final = 10.0
RETRY_S: Final = 0.005
TIMEOUT_MS: Final = 60_000
_RETRIABLE: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class NoResponseError(Exception):
    """A request without a response; the message has the reason."""


def version_range(broker: OwnRequestPorts, key: int) -> tuple[int, int]:
    """Return the lowest and highest version of an API on any listener; (0, -1) if none serves the API.

    A listener with the personality of an older Kafka serves fewer versions.
    """
    ranges = [versions_of(listener.personality).get(key) for listener in broker.listeners]
    served = [each for each in ranges if each is not None]
    return (min(low for low, _ in served), max(high for _, high in served)) if served else (0, -1)


def _listener_name(broker: OwnRequestPorts, key: int, version: int) -> str:
    """Return the name of a listener that serves a version of an API. Raises NoResponseError.

    A listener without TLS and SASL whose clients may do everything comes before the others.
    """
    may_do_all = broker.authorizer.is_super_user
    for listener in sorted(
        broker.listeners, key=lambda each: (each.security is not None, not may_do_all(each.principal))
    ):
        low, high = versions_of(listener.personality).get(key, (0, -1))
        if low <= version <= high:
            return listener.name
    raise NoResponseError(f"no listener of this broker serves version {version} of {APIS[key].name}")


async def ask(
    broker: OwnRequestPorts, node_id: int, key: int, version: int, request: Message, client_id: str
) -> Message:
    """Send a request to a node, or to the controller if there is no such node; return the response. Raises NoResponseError.

    The request uses a listener that serves the version.
    """
    listener = _listener_name(broker, key, version)
    body = bytearray(request_header(key, version, 1, client_id.encode()))
    request.encode(body, version)
    node = broker.nodes.by_id.get(node_id) or broker.nodes.by_id[broker.nodes.controller]
    address = node.listeners[listener].addresses[0].reachable()
    frame = await _exchange(address, pack(">i", len(body)) + body)
    try:
        return response_class(key).decode(frame, version, response_body_at(frame, key, version))
    except (DecodeError, IndexError) as fault:
        raise NoResponseError(f"the response cannot be decoded: {fault}") from fault


async def begin_newer_instance(broker: OwnRequestPorts, transactional_id: str) -> None:
    """Call InitProducerId like a new instance of a producer, which fences the previous instance. Raises NoResponseError."""
    _, version = version_range(broker, INIT_PRODUCER_ID)
    timeout_ms = min(TIMEOUT_MS, broker.config["transaction.max.timeout.ms"])
    request = InitProducerIdRequest(transactional_id, timeout_ms)
    for _ in range(round(ANSWER_S_MAX / RETRY_S)):
        leader = coordinator_of(broker.topics.internal_topic(TXN_STATE), transactional_id).leader
        codes = list(error_codes(await ask(broker, leader, INIT_PRODUCER_ID, version, request, NEWER_INSTANCE)))
        if not codes:
            return
        if not _RETRIABLE.issuperset(codes):
            break
        await asyncio.sleep(RETRY_S)
    raise NoResponseError(f"InitProducerId for {transactional_id!r} is answered by {', '.join(map(error_name, codes))}")


async def _exchange(address: Address, frame: bytes) -> bytes:
    """Send a frame; return the response frame without its length. Raises NoResponseError."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frame)
        (size,) = unpack(">i", await asyncio.wait_for(reader.readexactly(4), ANSWER_S_MAX))
        return await asyncio.wait_for(reader.readexactly(size), ANSWER_S_MAX)
    except asyncio.IncompleteReadError as fault:
        raise NoResponseError("the broker closed the connection without a response") from fault
    except TimeoutError as fault:
        raise NoResponseError(f"there was no response within {ANSWER_S_MAX:g} s") from fault
    except OSError as fault:
        raise NoResponseError(f"the broker cannot be reached at {address}: {fault.strerror}") from fault
    finally:
        if writer is not None:
            writer.close()
