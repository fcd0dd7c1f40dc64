"""One connection to one broker, with one request in flight at a time.

request   size int32 | key int16 | version int16 | correlation id int32 | client id | tags, if flexible | message
answer    size int32 | correlation id int32 | tags, if flexible and not ApiVersions | message

There are two layers below `cluster`: this one, on a socket, for commands that send a few requests and exit, and `channel`,
on aiokafka, for producers, which need many in-flight requests. Importing aiokafka takes 60 ms; all of `stuntbroker txn list`
takes 40 ms.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from struct import pack, unpack_from
from typing import Final, TypeVar

from stuntbroker.client.errors import BrokerError, ConnectionFailed, UnsupportedVersion
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import API_VERSIONS, APIS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.primitives import INT16_MAX, DecodeError, Message, skip_tags

API_VERSIONS_FIRST: Final = 3
"""ApiVersions version tried first. An older broker responds at version 0, with an error and its own versions."""
FRAME_SIZE_MAX: Final = 100 << 20
"""Maximum bytes of a response; Kafka's limit for requests (`socket.request.max.bytes`) is the same."""
CONNECT_S_MAX: Final = 5.0
REQUEST_S_MAX: Final = 30.0
WAIT_S_MIN: Final = 0.001
"""Minimum time-out of a socket: with 0 seconds it would be non-blocking, and fail with another error."""
CLIENT_ID: Final = "stuntbroker"

Answer = TypeVar("Answer", bound=Message)


class Deadline:
    """A point in time by which several steps together have to end."""

    __slots__ = ("_at_s", "_now_s")

    def __init__(self, timeout_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._at_s = now_s() + timeout_s

    def left_s(self, most_s: float = float("inf")) -> float:
        """Return the seconds left, at most `most_s`; never negative."""
        return max(0.0, min(self._at_s - self._now_s(), most_s))


class Connection:
    """A connection with negotiated versions: the constructor connects. After ConnectionFailed, it cannot be used any more."""

    def __init__(self, address: Address, deadline: Deadline, client_id: str = CLIENT_ID) -> None:
        self.address = address
        self._client_id = client_id.encode()
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, max(WAIT_S_MIN, deadline.left_s(CONNECT_S_MAX)))
        except (OSError, ValueError, OverflowError) as fault:  # Metadata may name an invalid host or port.
            raise ConnectionFailed(f"cannot connect to {address}: {reason(fault)}") from fault
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.versions = self._agree(deadline)
            """API key -> (lowest, highest) version of the broker."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def version(self, key: int, least: int = 0, most: int = INT16_MAX) -> int:
        """Return the highest version of an API, from `least` to `most`, that both sides have. Raises UnsupportedVersion."""
        return chosen_version(self.address, self.versions, key, least, most)

    def ask(self, key: int, version: int, request: Message, answer: type[Answer], deadline: Deadline) -> Answer:
        """Send a request, wait for its response, and return it. Raises ConnectionFailed."""
        flexible = version >= APIS[key].flexible_from
        self._correlation_id = self._correlation_id % 0x7FFF_FFFF + 1
        body = bytearray(pack(">hhih", key, version, self._correlation_id, len(self._client_id)) + self._client_id)
        if flexible:
            body.append(0)
        request.encode(body, version)
        deadline = Deadline(deadline.left_s(REQUEST_S_MAX))
        try:
            self._socket.settimeout(max(WAIT_S_MIN, deadline.left_s()))
            self._socket.sendall(pack(">i", len(body)) + body)
            frame = self._receive(deadline)
            (correlation_id,) = unpack_from(">i", frame)
            if correlation_id != self._correlation_id:
                raise DecodeError(f"the answer is one to request {correlation_id}, not {self._correlation_id}", 0)
            if key == API_VERSIONS:
                # The response header is the same in all versions; the body is version 0 if the broker does not know ours.
                unknown = frame[4:6] == pack(">h", ErrorCode.UNSUPPORTED_VERSION)
                return answer.decode(frame, 0 if unknown else version, 4)
            return answer.decode(frame, version, skip_tags(frame, 4) if flexible else 4)
        except (OSError, DecodeError, IndexError) as fault:
            self.close()
            raise ConnectionFailed(f"{APIS[key].name} to {self.address}: {reason(fault)}") from fault

    def _agree(self, deadline: Deadline) -> dict[int, tuple[int, int]]:
        """Request and return the versions of all APIs."""
        request = ApiVersionsRequest(CLIENT_ID, "0")
        answer = self.ask(API_VERSIONS, API_VERSIONS_FIRST, request, ApiVersionsResponse, deadline)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.ask(API_VERSIONS, 0, request, ApiVersionsResponse, deadline)
        if answer.error_code:
            raise BrokerError(f"ApiVersions to {self.address}", answer.error_code)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _receive(self, deadline: Deadline) -> bytes:
        (size,) = unpack_from(">i", self._read(4, deadline))
        if not 4 <= size <= FRAME_SIZE_MAX:
            raise DecodeError(f"an answer of {size} bytes, more than {FRAME_SIZE_MAX} or less than 4", 0)
        return self._read(size, deadline)

    def _read(self, size: int, deadline: Deadline) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(WAIT_S_MIN, deadline.left_s()))
            more = self._socket.recv(min(size - len(data), 1 << 20))
            if not more:
                raise ConnectionResetError("the broker closed the connection before its answer was whole")
            data += more
        return bytes(data)


def chosen_version(address: Address, versions: dict[int, tuple[int, int]], key: int, least: int, most: int) -> int:
    """Return the highest version of an API that this client and the broker have. Raises UnsupportedVersion."""
    api = APIS[key]
    low, high = versions.get(key, (0, -1))
    most = min(api.version_max, most)
    version = min(high, most)
    if version < max(low, api.version_min, least):
        has = f"has {api.name} {low}-{high}" if high >= 0 else f"has no {api.name}"
        needed = f"{max(api.version_min, least)}-{most}"
        raise UnsupportedVersion(f"the broker at {address} {has}, needed is version {needed}")
    return version


def reason(fault: BaseException) -> str:
    """Return the reason for a connection failure, as text."""
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
