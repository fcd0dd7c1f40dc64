"""Security of a client's connections: TLS, and SASL with user names and passwords.

The options are aiokafka's own, so that connections of blocking callers and those of producers take the same ones.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeVar

from stuntbroker.client.errors import NAMES, AuthenticationFailed, ConnectionFailed
from stuntbroker.protocol.addresses import SECURITY_PROTOCOLS
from stuntbroker.protocol.api_keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from stuntbroker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from stuntbroker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from stuntbroker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from stuntbroker.protocol.primitives import Message
from stuntbroker.protocol.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from stuntbroker.protocol.addresses import Address

MECHANISMS: Final = ("PLAIN", "GSSAPI", *SCRAM_MECHANISMS, "OAUTHBEARER")
"""Mechanisms of aiokafka's clients."""
BLOCKING_MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS)
"""Mechanisms of blocking connections."""
HANDSHAKE_VERSION: Final = 1
"""Version of SaslHandshake after which tokens are sent in SaslAuthenticate requests, not bare."""


Answer = TypeVar("Answer", bound=Message)


class Security(TypedDict, total=False):
    """Security options, which are aiokafka's own."""

    security_protocol: str
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: str
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: Any


def blocking_security(options: Mapping[str, Any]) -> Security:
    """Return the options of a blocking connection, with defaults. Raises TypeError and ValueError, as `check_security`."""
    security: Security = {"security_protocol": "PLAINTEXT", "sasl_mechanism": "PLAIN", **options}  # type: ignore[typeddict-item]
    check_security(security, "of a connection")
    if security["security_protocol"].startswith("SASL") and security["sasl_mechanism"] not in BLOCKING_MECHANISMS:
        raise ValueError(f"sasl_mechanism {security['sasl_mechanism']!r} is none of {', '.join(BLOCKING_MECHANISMS)}")
    return security


def check_security(options: Mapping[str, Any], owner: str = "of TransactionalProducer") -> None:
    """Raise TypeError for an option that is not one of Security, ValueError for an invalid combination."""
    for name in options:
        if name not in Security.__annotations__:
            raise TypeError(f"unknown option {name!r} {owner}")
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"security_protocol {protocol!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    if protocol.endswith("SSL") and options.get("ssl_context") is None:
        raise ValueError(
            f"security_protocol {protocol} needs an ssl_context: aiokafka.helpers.create_ssl_context makes one"
        )
    mechanism = options.get("sasl_mechanism", "PLAIN")
    if protocol.startswith("SASL") and mechanism not in MECHANISMS:
        raise ValueError(f"sasl_mechanism {mechanism!r} is none of {', '.join(MECHANISMS)}")
    needed = {"OAUTHBEARER": ("sasl_oauth_token_provider",), "GSSAPI": ()}.get(
        mechanism, ("sasl_plain_username", "sasl_plain_password")
    )
    missing = [name for name in needed if options.get(name) is None]
    if protocol.startswith("SASL") and missing:
        raise ValueError(f"sasl_mechanism {mechanism} needs {' and '.join(missing)}")
    for name in ("sasl_plain_username", "sasl_plain_password"):
        if not isinstance(options.get(name), str | None):
            raise TypeError(f"{name} is of type {type(options[name]).__name__}: it has to be a text")
    if not isinstance(context := options.get("ssl_context"), ssl.SSLContext | None):
        raise TypeError(f"ssl_context is {context!r:.40}: it has to be an ssl.SSLContext")
    if (provider := options.get("sasl_oauth_token_provider")) is not None:
        from aiokafka.abc import AbstractTokenProvider  # Commands without tokens need not load it.

        if not isinstance(provider, AbstractTokenProvider):
            raise TypeError(
                f"sasl_oauth_token_provider is {provider!r:.40}: it has to be an aiokafka.abc.AbstractTokenProvider"
            )


def check_kerberos(options: Mapping[str, Any]) -> None:
    """Raise ValueError if aiokafka lacks the package with which it uses Kerberos. Blocking connections have no GSSAPI."""
    is_chosen = options.get("security_protocol", "").startswith("SASL") and options.get("sasl_mechanism") == "GSSAPI"
    if is_chosen and find_spec("gssapi") is None:
        raise ValueError("sasl_mechanism GSSAPI needs the package gssapi: pip install gssapi")


def encrypt(plain: socket.socket, address: Address, security: Security) -> socket.socket:
    """Return the socket to use after a TLS handshake, if the protocol has TLS. Raises AuthenticationFailed, OSError.

    `plain` is connected, and its time-out is that of the handshake.
    """
    context = security.get("ssl_context")
    if context is None or not security.get("security_protocol", "").endswith("SSL"):
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as fault:
        raise AuthenticationFailed(f"the certificate of {address} is not trusted: {fault.verify_message}") from fault
    except ssl.SSLError as fault:
        if "ALERT" in (fault.reason or ""):
            raise AuthenticationFailed(f"{address} refuses the TLS connection: {fault.reason}") from fault
        raise


class Ask(Protocol):
    """Sends a request on the connection that is authenticated, and returns the response. Raises ConnectionFailed."""

    def __call__(self, key: int, version: int, request: Message, answer: type[Answer], /) -> Answer: ...


def authenticate(address: Address, security: Security, ask: Ask, version_of: Callable[[int], int]) -> None:
    """Authenticate by SASL, if the protocol has it. Raises AuthenticationFailed, ConnectionFailed, UnsupportedVersion.

    `version_of`: API key -> version to use.
    """
    if not security.get("security_protocol", "").startswith("SASL"):
        return
    mechanism = security["sasl_mechanism"]
    offer = ask(SASL_HANDSHAKE, HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism), SaslHandshakeResponse)
    if offer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(f"{address} has no {mechanism}; it has {', '.join(offer.mechanisms) or 'none'}")
    if offer.error_code:
        raise AuthenticationFailed(f"{address} refuses SaslHandshake: {NAMES.get(offer.error_code, offer.error_code)}")
    version = version_of(SASL_AUTHENTICATE)
    exchange = _Exchange(security)
    token = exchange.next(None)
    while token is not None:
        answer = ask(SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token), SaslAuthenticateResponse)
        if answer.error_code:
            raise AuthenticationFailed(f"{address} refuses user {exchange.user!r}: {answer.error_message}")
        try:
            token = exchange.next(answer.auth_bytes)
        except (ValueError, KeyError) as fault:
            raise ConnectionFailed(f"{address} does not prove that it knows the password: {fault}") from fault


class _Exchange:
    """The client's tokens, made by aiokafka."""

    def __init__(self, security: Security) -> None:
        from aiokafka.conn import SaslPlainAuthenticator, ScramAuthenticator  # Loaded only where SASL is used: 60 ms.

        mechanism = security["sasl_mechanism"]
        if mechanism not in BLOCKING_MECHANISMS:
            raise AuthenticationFailed(f"{mechanism} is none of {', '.join(BLOCKING_MECHANISMS)}")
        self.user = security["sasl_plain_username"]
        options = {
            "loop": None,  # Used by neither: their steps are called directly.
            "sasl_plain_username": self.user,
            "sasl_plain_password": security["sasl_plain_password"],
        }
        self._authenticator = (
            SaslPlainAuthenticator(**options)
            if mechanism == "PLAIN"
            else ScramAuthenticator(**options, sasl_mechanism=mechanism)
        )

    def next(self, answer: bytes | None) -> bytes | None:
        """Return the token that follows the broker's answer (None at first), None at the end.

        Raises ValueError or KeyError if the broker does not prove that it knows the password.
        """
        step = self._authenticator._step(answer)
        return None if step is None else step[0]
