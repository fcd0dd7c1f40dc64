"""SaslAuthenticate, key 36, versions 0-2: a token of a SASL mechanism, and the answer to it (KIP-152).

v1 lifetime of the session in milliseconds (KIP-368). v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from stuntbroker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents

    class Uses(HasEvents, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 36
VERSIONS = range(0, 3)


def handle(request: Asking[Uses], body: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
    """Check a token; ILLEGAL_SASL_STATE without a mechanism that was agreed on."""
    authentication = request.connection.authentication
    if authentication is None:
        # Not loaded for listeners without SASL.
        from stuntbroker.broker.security.authentication import NO_AUTHENTICATION

        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION, b"", 0)
    answer = authentication.take_token(bytes(body.auth_bytes))
    if authentication.principal is not None:
        request.connection.principal = authentication.principal
    if answer.reason:
        request.broker.events.warning(
            "authentication_failed",
            client=request.peer,
            client_id=request.client_id,
            listener=request.listener.name,
            reason=answer.reason,
        )
    return SaslAuthenticateResponse(answer.error, answer.message, answer.token, answer.lifetime_ms)
