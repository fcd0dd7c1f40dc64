"""SASL mechanisms: each checks the tokens of one authentication, one after the other, and names the user at its end.

The messages of failures are Kafka's, because clients show them.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from math import nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stuntbroker.broker.security.scram import (
    ClientFirst,
    ScramCredential,
    ScramError,
    parse_client_first,
    server_final,
    server_first,
)
from stuntbroker.protocol.scram import SCRAM_MECHANISMS, ScramMechanism

if TYPE_CHECKING:
    from stuntbroker.broker.random_source import RandomSource
    from stuntbroker.broker.security.users import Users

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SERVED: Final = (PLAIN, *sorted(SCRAM_MECHANISMS, reverse=True), OAUTHBEARER)
"""Mechanisms, in the order in which Kafka lists them."""
PLAIN_TOKENS: Final = 3
NONCE_BYTES: Final = 18
SECONDS_MAX: Final = 2**53
"""Largest time of a token; JSON has larger numbers, and even an infinity."""
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
_HEADER: Final = re.compile(r"n,(?:a=([^,]*))?,", re.IGNORECASE)
_PAIR: Final = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+")
_AUTH: Final = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE)
USER_SHOWN: Final = 100
"""Maximum number of characters of an unknown user's name in a message."""


class AuthenticationFailure(Exception):
    """The authentication failed. The message is for the client."""


class InvalidCredentials(AuthenticationFailure):
    """A token is malformed, or does not prove who the client is. The client only gets this fact and the mechanism."""


class Mechanism(Protocol):
    """The server's side of one authentication."""

    user: str | None
    """The user, once the authentication is complete."""
    expires_ms: int | None
    """Time at which the credentials expire, by the wall clock; None if they do not."""

    def evaluate(self, token: bytes) -> bytes:
        """Check the client's next token, and return the answer to it. Raises AuthenticationFailure."""


class Plain:
    """PLAIN (RFC 4616): authorization id, user and password in one token."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user: str | None = None
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """As Mechanism."""
        count = token.count(b"\0") + 1
        if count != PLAIN_TOKENS:
            raise AuthenticationFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        authorization_id, user, password = token.decode("utf-8", "replace").split("\0")
        if not user:
            raise AuthenticationFailure("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailure("Authentication failed: password not specified")
        expected = self._users.password(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise AuthenticationFailure("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailure(OTHER_AUTHORIZATION_ID)
        self.user = user
        return b""


class Scram:
    """SCRAM-SHA-256 or SCRAM-SHA-512 (RFC 5802), in two tokens."""

    def __init__(self, users: Users, mechanism: ScramMechanism, random_source: RandomSource) -> None:
        self._users = users
        self._mechanism = mechanism
        self._random_source = random_source
        self._first: ClientFirst | None = None
        self._credential: ScramCredential
        self._challenge = b""
        self.user: str | None = None
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """As Mechanism."""
        try:
            return self._begin(token) if self._first is None else self._end(self._first, token)
        except ScramError as fault:
            raise InvalidCredentials(str(fault)) from fault

    def _begin(self, token: bytes) -> bytes:
        first = parse_client_first(token)
        if first.extensions.get("tokenauth", "").lower() == "true":
            raise InvalidCredentials("delegation tokens are not served")
        credential = self._users.scram_credential(self._mechanism, first.user)
        if credential is None:
            raise InvalidCredentials(
                f"there is no user {first.user[:USER_SHOWN]!r} with a password for {self._mechanism.name}"
            )
        if first.authorization_id not in ("", first.user):
            raise AuthenticationFailure(OTHER_AUTHORIZATION_ID)
        self._first, self._credential = first, credential
        nonce = first.nonce + self._random_source.random_bytes(NONCE_BYTES).hex()
        self._challenge = server_first(nonce, credential)
        return self._challenge

    def _end(self, first: ClientFirst, token: bytes) -> bytes:
        final = server_final(self._mechanism, self._credential, first, self._challenge, token)
        self.user = first.user
        return final


class TokenRules(NamedTuple):
    """What is required of the tokens of a listener, from the options of OAuthBearerLoginModule in its JAAS configuration."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    """Scopes that a token must have."""
    clock_skew_ms: int = 0
    """By how much the clocks of the client and of the broker may differ."""


class OAuthBearer:
    """OAUTHBEARER (RFC 7628) with unsecured tokens, which is what Kafka accepts without further configuration.

    A token is a JSON Web Token with the algorithm "none" and an empty signature. It needs a claim with the user, and the
    claim `exp`, in seconds; it expires then.
    """

    def __init__(self, now_ms: Callable[[], int], rules: TokenRules) -> None:
        self._now_ms = now_ms
        self._rules = rules
        self._refusal = ""
        self.user: str | None = None
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """As Mechanism. A refused token is answered first, and fails when the client has acknowledged the answer."""
        if self._refusal:
            raise AuthenticationFailure(self._refusal)
        authorization_id, signed = _parse_bearer(token.decode("utf-8", "replace"))
        rules, claims = self._rules, _unsecured_claims(signed)
        user, expires_s, issued_s = (
            claims.get(rules.user_claim),
            _number(claims.get("exp")),
            _number(claims.get("iat", 0)),
        )
        now_s, skew_s = self._now_ms() / 1000, rules.clock_skew_ms / 1000
        scopes = _scopes(claims.get(rules.scope_claim))
        is_current = issued_s <= now_s + skew_s and now_s - skew_s < expires_s and issued_s < expires_s
        if not isinstance(user, str) or not user.strip() or scopes is None or not is_current:
            self._refusal = INVALID_TOKEN
        elif not scopes.issuperset(rules.scopes):
            scopes_shown = json.dumps(f"[{', '.join(rules.scopes)}]")
            self._refusal = f'{{"status":"insufficient_scope", "scope":{scopes_shown}}}'
        if self._refusal:
            return self._refusal.encode()
        assert isinstance(user, str)
        if (authorization_id or user) != user:
            raise AuthenticationFailure(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({user})"
            )
        self.user, self.expires_ms = user, int(expires_s * 1000)
        return b""


def _scopes(claim: object) -> frozenset[str] | None:
    """Return the scopes of a token: one text, or a list of them. None if the claim is neither."""
    if claim is None:
        return frozenset()
    scopes = [claim] if isinstance(claim, str) else claim
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return None
    return frozenset(scope.strip() for scope in scopes if scope.strip())


def _number(value: object) -> float:
    """Return a time in seconds, or NaN, which is neither before nor after anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= SECONDS_MAX else nan  # type: ignore[arg-type,return-value]


def _unsecured_claims(token: str) -> dict[str, Any]:
    """Return the claims of an unsecured JSON Web Token; empty if it is none."""
    header, claims, signature = [*token.split("."), "", "", ""][:3]
    if token.count(".") != 2 or signature:
        return {}
    parts = []
    for part in (header, claims):
        try:
            value = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        except (Base64Error, ValueError, RecursionError):
            return {}
        if not isinstance(value, dict):
            return {}
        parts.append(value)
    return parts[1] if parts[0].get("alg") == "none" else {}


def new_mechanism(
    name: str, users: Users, random_source: RandomSource, now_ms: Callable[[], int], token_rules: TokenRules
) -> Mechanism:
    """Return the server's side of a new authentication by one of the mechanisms in SERVED."""
    if name == PLAIN:
        return Plain(users)
    if name == OAUTHBEARER:
        return OAuthBearer(now_ms, token_rules)
    return Scram(users, SCRAM_MECHANISMS[name], random_source)


def _parse_bearer(message: str) -> tuple[str, str]:
    r"""Return (authorization id, token) of `n,a=ID,\x01auth=Bearer TOKEN\x01\x01` (RFC 7628), with other pairs anywhere.

    Raises InvalidCredentials. Takes time in proportion to the message, which comes from strangers.
    """
    header, *pairs = message.split("\x01")
    match = _HEADER.fullmatch(header)
    if match is None or pairs[-2:] != ["", ""] or not all(_PAIR.fullmatch(pair) for pair in pairs[:-2]):
        raise InvalidCredentials("the message is malformed")
    values = dict(pair.split("=", 1) for pair in pairs[:-2])
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None:
        raise InvalidCredentials("the message has no bearer token")
    return match[1] or "", auth[1]
