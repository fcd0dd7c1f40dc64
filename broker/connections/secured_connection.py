"""A connection to a listener with TLS or SASL: authentication of the client, and the requests allowed before that."""

from __future__ import annotations

from collections import deque
from struct import Struct, pack
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.connections.connection import Connection
from stuntbroker.broker.permissions.authorizer import Principal
from stuntbroker.broker.requests.request import Request
from stuntbroker.broker.security.authentication import Authentication, Stage, Unanswerable
from stuntbroker.broker.security.subject import NoMatchingRule
from stuntbroker.protocol.api_keys import API_VERSIONS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer

if TYPE_CHECKING:
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.services import Services

PIECE_BYTES_MAX: Final = 1 << 18
"""Bytes of a large response that are encrypted at once."""
_unpack_size: Final = Struct(">i").unpack_from


class SecuredConnection(Connection):
    """A client's connection that may have to authenticate first. An authenticated one is like any other."""

    __slots__ = ("_receive_size_max", "_unsent")

    def __init__(self, broker: Services, listener: Listener) -> None:
        super().__init__(broker, listener)
        security = listener.security
        assert security is not None, "a PLAINTEXT listener has plain connections"
        self._receive_size_max = security.receive_size_max
        self._unsent: deque[Buffer] = deque()
        """Pieces of a large response that the client does not read yet. There are none unless the connection is paused."""
        if security.mechanisms:
            self.authentication: Authentication | None = security.new_authentication(
                broker.scram_credentials, broker.random_source, broker.clock
            )

    def connection_made(self, transport: Any) -> None:
        """Begin a connection, after the TLS handshake. A client certificate names the client's principal."""
        super().connection_made(transport)
        security = self.listener.security
        if self.authentication is not None or security is None:
            return
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if certificate:
            try:
                self.principal = Principal("User", security.user_of_certificate(certificate))
            except (NoMatchingRule, ValueError) as fault:
                self.broker.events.warning(
                    "authentication_failed", client=self.peer, listener=self.listener.name, reason=str(fault)
                )
                self.pause_writing()  # A request that came along is not handled.
                transport.abort()  # An orderly end of TLS cannot begin before the connection has been made.

    def buffer_updated(self, count: int) -> None:
        """Handle received bytes; a client that is not authenticated may send small requests only."""
        authentication, low = self.authentication, self._low
        if authentication is not None and authentication.stage != Stage.AUTHENTICATED and self._high + count >= low + 4:
            size, size_max = _unpack_size(self._view, low)[0], self._receive_size_max
            if size_max < size <= self.broker.frame_size_max:
                self.fail("frame_refused", reason="the client is not authenticated", size=size, size_max=size_max)
                return
        super().buffer_updated(count)

    def _frame(self, low: int, stop: int, key: int, version: int, correlation: int) -> bool:
        authentication = self.authentication
        if authentication is None:
            return super()._frame(low, stop, key, version, correlation)
        if authentication.stage == Stage.BARE_TOKENS:
            return self._take_bare_token(bytes(self._view[low:stop]), authentication)
        if not authentication.admit_request(key):
            self.fail("request_not_authenticated", api_key=key, stage=authentication.stage.name.lower())
            return False
        return super()._frame(low, stop, key, version, correlation)

    def _deliver_large(self, parts: list[Buffer]) -> None:
        """Encrypt a large response only as fast as the client reads, because encrypted bytes take memory."""
        for part in parts:
            view = memoryview(part)
            self._unsent.extend(view[at : at + PIECE_BYTES_MAX] for at in range(0, len(view), PIECE_BYTES_MAX))
        self._write_unsent()

    def _write_unsent(self) -> None:
        while self._unsent and not self.is_paused:
            self._turn.deliver(self.transport, self._unsent.popleft())

    def _resume_after_pause(self) -> None:
        """Send more of a large response, then handle further requests."""
        self._write_unsent()
        if not self.is_paused:
            super()._resume_after_pause()

    def close(self) -> None:
        """Encrypt what was not sent yet of a large response, and close the connection after it."""
        while self._unsent:
            self._turn.deliver(self.transport, self._unsent.popleft())
        super().close()

    def abort(self) -> None:
        """Close the connection without sending what is left."""
        self._unsent.clear()
        super().abort()

    def connection_lost(self, fault: Exception | None) -> None:
        """Forget the connection, and what was not sent."""
        self._unsent.clear()
        super().connection_lost(fault)

    def _not_served(self, key: int, version: int, correlation: int) -> bool:
        if key == API_VERSIONS and self.authentication is not None:
            self.authentication.versions_refused()
        return super()._not_served(key, version, correlation)

    def _send_when_durable(self, request: Request, out: bytes | bytearray, parts: list[Buffer]) -> None:
        authentication = self.authentication
        if authentication is None or authentication.stage != Stage.FAILED:
            super()._send_when_durable(request, out, parts)
            return
        # Unlike Kafka: at once; Kafka waits for connection.failed.authentication.delay.ms.
        self.broker.turn.end()
        self.broker.turn.deliver(self.transport, out)
        self.close()

    def _take_bare_token(self, token: bytes, authentication: Authentication) -> bool:
        """Check a token that came without a request header; the answer has none either."""
        try:
            answer = authentication.take_token(token)
        except Unanswerable as fault:
            self.fail("authentication_failed", listener=self.listener.name, reason=str(fault))
            return False
        if answer.error != ErrorCode.NONE:
            self.fail("authentication_failed", listener=self.listener.name, reason=answer.reason)
            return False
        if authentication.principal is not None:
            self.principal = authentication.principal
        self.broker.turn.end()
        self.broker.turn.deliver(self.transport, pack(">i", len(answer.token)) + answer.token)
        return True
