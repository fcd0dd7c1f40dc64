"""SaslHandshake, key 17, versions 0-1: agrees on a SASL mechanism.

v0 bare tokens follow. v1 tokens follow in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from stuntbroker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents

    class Uses(HasEvents, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 17
VERSIONS = range(0, 2)


def handle(request: Asking[Uses], body: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse | None:
    """Agree on a mechanism of the listener; ILLEGAL_SASL_STATE without SASL, or when it is too late.

    Returns None if the connection has been closed, as in Kafka when a client authenticates again by an unknown mechanism.
    """
    authentication = request.connection.authentication
    if authentication is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    from stuntbroker.broker.security.authentication import MECHANISM_SHOWN, Unanswerable

    try:
        error = authentication.shake_hands(body.mechanism, bare_tokens=version == 0)
    except Unanswerable as fault:
        request.fail("authentication_failed", listener=request.listener.name, reason=str(fault))
        return None
    if error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        request.broker.events.warning(
            "authentication_failed",
            client=request.peer,
            client_id=request.client_id,
            listener=request.listener.name,
            reason=f"the listener has no mechanism {body.mechanism[:MECHANISM_SHOWN]!r}; it has "
            + ", ".join(authentication.mechanisms),
        )
    return SaslHandshakeResponse(
        error, [] if error == ErrorCode.ILLEGAL_SASL_STATE else list(authentication.mechanisms)
    )
