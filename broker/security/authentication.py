"""The rules of one client's SASL authentication (KIP-43, KIP-152, KIP-368): which request may follow which.

    start --ApiVersions (once)--> start --SaslHandshake--> tokens --last token--> authenticated --SaslHandshake--> tokens

Tokens arrive in SaslAuthenticate requests or, after SaslHandshake v0, as bare frames. An authenticated client may authenticate
again only if its session expires: with `connections.max.reauth.ms`, or with a token that does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.broker.permissions.authorizer import Principal
from stuntbroker.broker.security.mechanisms import AuthenticationFailure, InvalidCredentials, Mechanism
from stuntbroker.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock


NO_AUTHENTICATION: Final = "SaslAuthenticate request received after successful authentication"
"""Kafka's message where there is nothing to authenticate, which includes listeners without SASL."""


REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""Time after the begin of a re-authentication in which another one is refused (KIP-368)."""
MECHANISM_SHOWN: Final = 100
"""Maximum number of characters of an unknown mechanism in the log."""


class Unanswerable(Exception):
    """The connection has to be closed without a response. The message is for the log."""


class Stage(Enum):
    """Progress of an authentication."""

    START = auto()
    TOKENS = auto()
    """The mechanism is agreed on."""
    BARE_TOKENS = auto()
    """As TOKENS, after SaslHandshake v0: frames are tokens."""
    AUTHENTICATED = auto()
    FAILED = auto()


class Answer(NamedTuple):
    """The answer to a token."""

    error: ErrorCode
    message: str
    """The message of an error, for the client; otherwise empty."""
    token: bytes
    lifetime_ms: int
    """Milliseconds until the session expires; 0 if it does not."""
    reason: str = ""
    """The reason of a failure, for the log."""


class Authentication:
    """The authentication of one connection."""

    __slots__ = (
        "_clock",
        "_expires_ms",
        "_had_versions",
        "_is_other_mechanism",
        "_mechanism",
        "_mechanism_name",
        "_new_mechanism",
        "_reauthenticated_ms",
        "_session_ms_max",
        "mechanisms",
        "principal",
        "stage",
    )

    def __init__(
        self,
        mechanisms: tuple[str, ...],
        new_mechanism: Callable[[str], Mechanism],
        clock: Clock,
        session_ms_max: Callable[[str], int],
    ) -> None:
        """`session_ms_max`: longest session by a mechanism (`connections.max.reauth.ms`); 0 for no limit."""
        self.mechanisms = mechanisms
        """Names of the mechanisms that the listener has."""
        self._new_mechanism = new_mechanism
        self._clock = clock
        self._session_ms_max = session_ms_max
        self._mechanism: Mechanism | None = None
        self._mechanism_name = ""
        self._is_other_mechanism = False
        """Whether the client authenticates again by another mechanism than before."""
        self._had_versions = False
        self._expires_ms: int | None = None
        """Time at which the session expires, by the monotonic clock."""
        self._reauthenticated_ms: int | None = None
        """Time at which the client began to authenticate again, by the clock's `client_ms`."""
        self.stage = Stage.START
        self.principal: Principal | None = None
        """The authenticated principal."""

    def admit_request(self, key: int) -> bool:
        """Let a request be handled now, and return True. If it returns False, the connection has to be closed."""
        if self.stage is Stage.AUTHENTICATED:
            return not self._is_expired() or key == SASL_HANDSHAKE
        if self.stage is Stage.START:
            if key == API_VERSIONS:
                before, self._had_versions = self._had_versions, True
                return not before
            return key == SASL_HANDSHAKE
        # Unlike Kafka: any other request closes the connection; Kafka answers it with ILLEGAL_SASL_STATE first.
        return self.stage is Stage.TOKENS and key in (SASL_AUTHENTICATE, SASL_HANDSHAKE)

    def versions_refused(self) -> None:
        """Let the client ask for the versions once more, because it asked with one that is not served."""
        self._had_versions = False

    def shake_hands(self, mechanism: str, *, bare_tokens: bool) -> ErrorCode:
        """Agree on the mechanism. `bare_tokens`: the client sends tokens without request headers (v0).

        Raises Unanswerable if the connection has to be closed without a response.
        """
        if self.stage is Stage.AUTHENTICATED:
            return self._begin_reauthentication(mechanism, bare_tokens)
        if self.stage is not Stage.START:
            self.stage = Stage.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.mechanisms:
            self.stage = Stage.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._agree(mechanism, bare_tokens)
        return ErrorCode.NONE

    def _begin_reauthentication(self, mechanism: str, bare_tokens: bool) -> ErrorCode:
        """Agree on the mechanism of an authenticated client, which may not authenticate again twice in a second."""
        now_ms = self._clock.client_ms()  # A client waits by its own clock, also while a test has paused the broker's.
        before_ms = self._reauthenticated_ms
        if self._expires_ms is None or (before_ms is not None and now_ms - before_ms < REAUTHENTICATION_INTERVAL_MS):
            return ErrorCode.ILLEGAL_SASL_STATE
        self._reauthenticated_ms = now_ms
        if mechanism not in self.mechanisms:
            raise Unanswerable(
                f"the client authenticates again by {mechanism[:MECHANISM_SHOWN]!r}, which is not enabled"
            )
        self._is_other_mechanism = mechanism != self._mechanism_name
        self._agree(mechanism, bare_tokens)
        return ErrorCode.NONE

    def _agree(self, mechanism: str, bare_tokens: bool) -> None:
        self._mechanism, self._mechanism_name = self._new_mechanism(mechanism), mechanism
        self.stage = Stage.BARE_TOKENS if bare_tokens else Stage.TOKENS

    def take_token(self, token: bytes) -> Answer:
        """Check the client's next token, and return the answer. Raises Unanswerable."""
        if self.stage is Stage.AUTHENTICATED or self._mechanism is None:
            return Answer(ErrorCode.ILLEGAL_SASL_STATE, NO_AUTHENTICATION, b"", 0)
        if self._is_other_mechanism:
            raise Unanswerable(f"the client authenticates again by another mechanism, {self._mechanism_name}")
        try:
            answer = self._mechanism.evaluate(token)
            if self._mechanism.user is not None:
                self._authenticated(Principal("User", self._mechanism.user))
        except AuthenticationFailure as fault:
            return self._failed(fault)
        lifetime_ms = 0
        if self._mechanism.user is not None and self._expires_ms is not None:
            # A token may have ended already, by as much as the clocks may differ.
            lifetime_ms = max(0, self._expires_ms - self._clock.monotonic_ms())
        return Answer(ErrorCode.NONE, "", answer, lifetime_ms)

    def _authenticated(self, principal: Principal) -> None:
        if self.principal not in (None, principal):
            raise AuthenticationFailure(
                f"Cannot change principals during re-authentication from {_shown(self.principal)}: {_shown(principal)}"
            )
        assert self._mechanism is not None
        session_ms_max = self._session_ms_max(self._mechanism_name)
        limits_ms = [session_ms_max] if session_ms_max else []
        if self._mechanism.expires_ms is not None:
            limits_ms.append(self._mechanism.expires_ms - self._clock.now_ms())
        self._expires_ms = self._clock.monotonic_ms() + min(limits_ms) if limits_ms else None
        self.principal, self.stage = principal, Stage.AUTHENTICATED

    def _failed(self, fault: AuthenticationFailure) -> Answer:
        step = "re-authentication" if self.principal is not None else "authentication"
        self.stage = Stage.FAILED
        message = str(fault)
        if isinstance(fault, InvalidCredentials):
            name = self._mechanism_name
            message = f"Authentication failed during {step} due to invalid credentials with SASL mechanism {name}"
        return Answer(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", 0, str(fault))

    def _is_expired(self) -> bool:
        return self._expires_ms is not None and self._clock.monotonic_ms() >= self._expires_ms


def _shown(principal: Principal | None) -> str:
    """Return a principal as Kafka writes it in this message."""
    return "" if principal is None else f"{principal.type}.{principal.name}"
