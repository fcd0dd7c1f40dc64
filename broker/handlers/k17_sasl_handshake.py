"""SaslHandshake, key 17, versions 0-1: agrees on a SASL mechanism.

v0 bare tokens follow. v1 tokens follow in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from stuntbroker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking

KEY: Final = 17
VERSIONS = range(0, 2)


def handle(connection: Asking[object], request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
    """Agree on a mechanism of the listener; ILLEGAL_SASL_STATE without SASL, or when it is too late."""
    authentication = connection.authentication
    if authentication is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [])
    error = authentication.shake_hands(request.mechanism, bare_tokens=version == 0)
    return SaslHandshakeResponse(
        error, [] if error == ErrorCode.ILLEGAL_SASL_STATE else list(authentication.mechanisms)
    )
