"""One connection to one broker, for blocking callers: commands, the source and the recovery of the pipeline.

request   size int32 | key int16 | version int16 | correlation id int32 | client id | tags, if flexible | message
response  size int32 | correlation id int32 | tags, if flexible and not ApiVersions | message

Transactional producers have connections of their own, those of aiokafka (package `client.connections`): they need an event
loop, and importing aiokafka takes 60 ms, where all of `stuntbroker txn list` takes 40 ms.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from stuntbroker.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ClientError,
    ConnectionFailed,
    Refused,
    reason,
)
from stuntbroker.client.monotonic import monotonic_s
from stuntbroker.client.versions import API_VERSIONS_FIRST, SOFTWARE, chosen_version
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import API_VERSIONS, APIS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.features import TRANSACTION_VERSION
from stuntbroker.protocol.headers import request_header, response_body_at
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.primitives import INT16_MAX, DecodeError, Message

if TYPE_CHECKING:
    from stuntbroker.client.security import Security

FRAME_SIZE_MAX: Final = 100 << 20
"""Maximum bytes of a response; Kafka's limit for requests (`socket.request.max.bytes`) is the same."""
HTTP: Final = int.from_bytes(b"HTTP", "big")
READ_BYTES_MAX: Final = 1 << 20
CONNECT_S_MAX: Final = 5.0
REQUEST_S_MAX: Final = 30.0
WAIT_S_MIN: Final = 0.001
"""Minimum time-out of a socket: with 0 seconds it would be non-blocking, and fail with another error."""
NO_ROUTE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH, errno.EHOSTUNREACH})
"""Errors of an address that this machine cannot reach, such as that of IPv6 in a container; another one may answer."""
CLIENT_ID: Final = "stuntbroker"
REFUSAL_HINT: Final = " (does the listener need TLS or SASL, or other certificates?)"
"""Listeners with TLS or SASL give no reason when they close a connection: at once, or after ApiVersions."""

Answer = TypeVar("Answer", bound=Message)


class Deadline:
    """A point in time by which several steps together have to end."""

    __slots__ = ("_at_s", "_now_s")

    def __init__(self, timeout_s: float, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._at_s = now_s() + timeout_s

    def left_s(self, most_s: float = float("inf")) -> float:
        """Return the seconds left, at most `most_s`; never negative."""
        return max(0.0, min(self._at_s - self._now_s(), most_s))

    def within(self, most_s: float) -> Deadline:
        """Return this deadline, or an earlier one that is `most_s` from now."""
        return Deadline(self.left_s(most_s), self._now_s)


class Pending(Generic[Answer]):
    """The response to a request that was sent, which arrives while a caller waits for it or for a later one."""

    __slots__ = ("_connection", "_correlation_id", "_key", "_response", "_response_type", "_version")

    def __init__(
        self, connection: Connection, key: int, version: int, correlation_id: int, answer: type[Answer]
    ) -> None:
        self._connection = connection
        self._key = key
        self._version = version
        self._correlation_id = correlation_id
        self._response_type = answer
        self._response: Answer | None = None

    @property
    def name(self) -> str:
        """The name of the request."""
        return APIS[self._key].name

    def result(self, deadline: Deadline) -> Answer:
        """Wait for the response and return it. Raises ConnectionFailed."""
        while self._response is None:
            self._connection.receive(self.name, deadline)
        return self._response

    def decode(self, frame: bytes) -> None:
        """Decode the response. Raises DecodeError, IndexError."""
        (correlation_id,) = unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            raise DecodeError(f"the response is to request {correlation_id}, not {self._correlation_id}", 0)
        version, start = self._version, response_body_at(frame, self._key, self._version)
        if self._key == API_VERSIONS and frame[start : start + 2] == pack(">h", ErrorCode.UNSUPPORTED_VERSION):
            version = 0  # The response of a broker that does not know our version.
        self._response = self._response_type.decode(frame, version, start)


class Connection:
    """A connection with negotiated versions: the constructor connects. After ConnectionFailed, it cannot be used any more.

    Requests are sent in the order of the calls, and responses arrive in the same order. A connection belongs to the process that
    opened it: after a fork, the child has to make its own, and any use of this one raises ClientError.
    """

    def __init__(
        self, address: Address, deadline: Deadline, client_id: str = CLIENT_ID, security: Security | None = None
    ) -> None:
        """Connect, and authenticate with `security` (None: PLAINTEXT). Raises AuthenticationFailed, ConnectionFailed."""
        self.address = address
        self.transaction_version = 0
        """Finalized level of `transaction.version` in the cluster; 0 if there is none."""
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._process_id = os.getpid()
        self._answers = 0
        self._pending: deque[Pending[Any]] = deque()
        self._fault: str | None = None
        """Why the connection was closed."""
        self._socket = _connected(address, max(WAIT_S_MIN, deadline.left_s(CONNECT_S_MAX)), security)
        try:
            self.versions = self._read_versions(deadline)
            """API key -> (lowest, highest) version of the broker."""
            if security is not None:
                self._authenticate(security, deadline)
        except BaseException:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether the connection has failed, or was closed."""
        return self._fault is not None

    def close(self) -> None:
        """Close the socket. In a forked process, this leaves the parent's connection open."""
        self._fault = self._fault or "the connection is closed"
        self._socket.close()

    def version(self, key: int, least: int = 0, most: int = INT16_MAX) -> int:
        """Return the highest version of an API, from `least` to `most`, that both sides have. Raises UnsupportedVersion."""
        return chosen_version(self.address, self.versions, key, least, most)

    def ask(self, key: int, version: int, request: Message, answer: type[Answer], deadline: Deadline) -> Answer:
        """Send a request, wait for its response, and return it. Raises ConnectionFailed."""
        deadline = deadline.within(REQUEST_S_MAX)
        return self.send(key, version, request, answer, deadline).result(deadline)

    def send(
        self, key: int, version: int, request: Message, answer: type[Answer], deadline: Deadline
    ) -> Pending[Answer]:
        """Send a request without waiting for the response. Raises ConnectionFailed."""
        self._check(APIS[key].name)
        self._correlation_id = self._correlation_id % 0x7FFF_FFFF + 1
        body = bytearray(request_header(key, version, self._correlation_id, self._client_id))
        request.encode(body, version)
        pending = Pending(self, key, version, self._correlation_id, answer)
        try:
            self._socket.settimeout(max(WAIT_S_MIN, deadline.left_s()))
            self._socket.sendall(pack(">i", len(body)) + body)
        except OSError as fault:
            raise self._failed(pending.name, fault) from fault
        except BaseException:  # A part of the request may have been sent.
            self.close()
            raise
        self._pending.append(pending)
        return pending

    def receive(self, name: str, deadline: Deadline) -> None:
        """Read the response to the oldest request in flight, for a caller that waits for `name`. Raises ConnectionFailed."""
        self._check(name)
        try:
            self._pending[0].decode(self._receive(deadline))
        except (OSError, DecodeError, IndexError) as fault:
            raise self._failed(name, fault) from fault
        except BaseException:  # A part of the response may have been read.
            self.close()
            raise
        self._pending.popleft()
        self._answers += 1

    def _check(self, name: str) -> None:
        check_process("this connection belongs", self._process_id)
        if self._fault is not None:
            raise ConnectionFailed(f"{name} to {self.address}: {self._fault}")

    def _failed(self, name: str, fault: Exception) -> ClientError:
        """Close the connection, of which nothing more can be read, and return the error."""
        self._fault = reason(fault)
        self.close()
        alert = str(getattr(fault, "reason", None) or "")
        if "ALERT" in alert:  # Of TLS 1.3, in which the handshake ends for a client before its certificate is checked.
            return AuthenticationFailed(f"{self.address} refuses the TLS connection: {alert}")
        kind = Refused if isinstance(fault, ConnectionResetError) and self._answers == 1 else ConnectionFailed
        return kind(f"{name} to {self.address}: {self._fault}")

    def _read_versions(self, deadline: Deadline) -> dict[int, tuple[int, int]]:
        """Request and return the versions of all APIs."""
        request = ApiVersionsRequest(*SOFTWARE)
        answer = self.ask(API_VERSIONS, API_VERSIONS_FIRST, request, ApiVersionsResponse, deadline)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.ask(API_VERSIONS, 0, request, ApiVersionsResponse, deadline)
        if answer.error_code:
            raise BrokerError(f"ApiVersions to {self.address}", answer.error_code)
        for feature in answer.finalized_features:
            if feature.name == TRANSACTION_VERSION:
                self.transaction_version = feature.max_version_level
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _authenticate(self, security: Security, deadline: Deadline) -> None:
        from stuntbroker.client.security import authenticate  # Loaded only where it is used, as in `_connected`.

        def ask(key: int, version: int, request: Message, answer: type[Answer]) -> Answer:
            return self.ask(key, version, request, answer, deadline)

        authenticate(self.address, security, ask, self.version)

    def _receive(self, deadline: Deadline) -> bytes:
        (size,) = unpack_from(">i", self._read(4, deadline))
        if size == HTTP:
            raise DecodeError("a response in HTTP: is this the address of a control API, not of a broker?", 0)
        if not 4 <= size <= FRAME_SIZE_MAX:
            raise DecodeError(f"a response of {size} bytes, more than {FRAME_SIZE_MAX} or less than 4", 0)
        return self._read(size, deadline)

    def _read(self, size: int, deadline: Deadline) -> bytes:
        parts = []
        while size > 0:
            self._socket.settimeout(max(WAIT_S_MIN, deadline.left_s()))
            part = self._socket.recv(min(size, READ_BYTES_MAX))
            if not part:
                hint = REFUSAL_HINT if self._answers <= 1 else ""
                raise ConnectionResetError(f"the broker closed the connection before its response was complete{hint}")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _open_socket(address: Address, timeout_s: float) -> socket.socket:
    """Connect to the first address of a host that accepts. The error is the one of an address that this machine can reach."""
    try:
        return socket.create_connection(address, timeout_s, all_errors=True)
    except ExceptionGroup as faults:
        reached = [each for each in faults.exceptions if isinstance(each, OSError) and each.errno not in NO_ROUTE]
        raise (reached or faults.exceptions)[0] from None


def _connected(address: Address, timeout_s: float, security: Security | None) -> socket.socket:
    """Return a socket that is connected, after the TLS handshake if there is one."""
    try:
        connected = _open_socket(address, timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, ValueError, OverflowError) as fault:  # Metadata may name an invalid host or port.
        raise ConnectionFailed(f"cannot connect to {address}: {reason(fault)}") from fault
    if security is None:
        return connected
    from stuntbroker.client.security import encrypt

    try:
        return encrypt(connected, address, security)
    except (OSError, ValueError) as fault:
        connected.close()
        raise ConnectionFailed(f"no TLS connection to {address}: {reason(fault)}") from fault
    except BaseException:
        connected.close()
        raise


def check_process(what: str, process_id: int) -> None:
    """Raise ClientError unless this is the process that opened the connections which `what` names."""
    if os.getpid() != process_id:
        raise ClientError(
            f"{what} to process {process_id}, not to its child {os.getpid()}: make a new one after the fork"
        )
