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


def handle(request: Asking[Uses], body: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse | None:
    """Check a token; ILLEGAL_SASL_STATE without a mechanism that was agreed on.

    Returns None if the connection has been closed, as in Kafka when a client authenticates again by another mechanism.
    """
    # Not loaded for listeners without SASL.
    from stuntbroker.broker.security.authentication import NO_AUTHENTICATION, Unanswerable

    authentication = request.connection.authentication
    if authentication is None:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION, b"", 0)
    try:
        answer = authentication.take_token(bytes(body.auth_bytes))
    except Unanswerable as fault:
        request.fail("authentication_failed", listener=request.listener.name, reason=str(fault))
        return None
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
