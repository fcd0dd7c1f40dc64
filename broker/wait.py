"""`stuntbroker wait`: for health checks and scripts; asks what a client asks first."""

from __future__ import annotations

import socket
import sys
import time
from struct import pack, unpack

from stuntbroker.broker.cli import UsageError, single
from stuntbroker.broker.config import ConfigError
from stuntbroker.broker.listener import Address, parse_address
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from stuntbroker.protocol.messages.metadata_response import MetadataResponse
from stuntbroker.protocol.primitives import DecodeError, Message

PAUSE_S = 0.05
ANSWER_MAX = 64 << 20
TIMEOUT_S_MAX = 1e9


def wait(found: dict[str, list[str]]) -> int:
    try:
        address = parse_address(single(found, "--bootstrap", "localhost:9092"), "--bootstrap")
        timeout_s = float(single(found, "--timeout", "30"))
    except ConfigError as fault:
        raise UsageError(str(fault)) from None
    except ValueError:
        timeout_s = -1.0
    if not 0 <= timeout_s < TIMEOUT_S_MAX:
        raise UsageError(f"--timeout {found['--timeout'][0]!r}: it must be a number of seconds")
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            ask(address, max(0.1, min(5.0, deadline - time.monotonic())))
            return 0
        except (OSError, DecodeError) as fault:
            if time.monotonic() + PAUSE_S >= deadline:
                sys.stderr.write(f"stuntbroker: no broker answers at {address} after {timeout_s:g} s: {fault}\n")
                return 1
        time.sleep(PAUSE_S)


def ask(address: Address, timeout_s: float) -> MetadataResponse:
    """ApiVersions and Metadata, as a client sends them. Raises OSError, DecodeError."""
    with socket.create_connection(address, timeout_s) as connection:
        ApiVersionsResponse.decode(_exchange(connection, 18, 0, ApiVersionsRequest()), 0, 4)
        answer = MetadataResponse.decode(_exchange(connection, 3, 1, MetadataRequest([])), 1, 4)
    if not answer.brokers:
        raise DecodeError("the metadata names no broker", 0)
    return answer


def _exchange(connection: socket.socket, key: int, version: int, request: Message) -> bytes:
    body = bytearray(pack(">hhih", key, version, 1, -1))
    request.encode(body, version)
    connection.sendall(pack(">i", len(body)) + body)
    (size,) = unpack(">i", _read(connection, 4))
    if not 4 <= size <= ANSWER_MAX:
        raise DecodeError(f"an answer of {size} bytes is none", 0)
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the connection was closed before the answer was whole")
        data += more
    return bytes(data)
