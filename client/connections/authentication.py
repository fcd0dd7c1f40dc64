"""Detection of authentication failures: aiokafka reports all failed connections alike, and would retry for ever."""

from __future__ import annotations

import asyncio
from ssl import SSLCertVerificationError, SSLError
from typing import Final, cast

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from stuntbroker.client.logger import log
from stuntbroker.client.transactional_errors import AuthenticationError
from stuntbroker.protocol.addresses import Address

TOKENS: Final = "OAUTHBEARER"
NOTHING_TO_ADD: Final = b"\x01"
"""The client's response to the reason for which its token was refused (RFC 7628, section 3.2.3)."""
_REFUSALS: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types.
    """An application's provider of tokens, with a time-out: aiokafka would wait for it without one, and open no connection."""

    def __init__(self, provider: AbstractTokenProvider, timeout_ms: int) -> None:
        self._provider = provider
        self._timeout_ms = timeout_ms

    async def token(self) -> str:
        """Return a token. Raises TimeoutError, and the errors of the application's provider."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000) as limit:
                return cast(str, await self._provider.token())
        except TimeoutError as fault:
            if limit.expired():
                raise TimeoutError(f"sasl_oauth_token_provider gave no token within {self._timeout_ms} ms") from fault
            raise
        except asyncio.CancelledError as fault:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The provider has awaited a task of its own, which was cancelled.
            raise ConnectionError("sasl_oauth_token_provider was cancelled, and gave no token") from fault

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of the application's provider."""
        return cast(dict[str, str], self._provider.extensions())


def is_authenticated(client: AIOKafkaClient) -> bool:
    """Return whether connections use credentials or certificates, which a broker can reject."""
    return bool(client._security_protocol != "PLAINTEXT")


def uses_tokens(client: AIOKafkaClient) -> bool:
    """Return whether connections use OAUTHBEARER: aiokafka takes one whose token was refused for an open connection."""
    return bool(is_authenticated(client) and client._sasl_mechanism == TOKENS)


def _alert_of(fault: BaseException) -> SSLError | None:
    """Return the TLS alert with which the peer ended a connection, for example because of a missing certificate."""
    for each in (fault, fault.__cause__):
        if isinstance(each, SSLError) and "ALERT" in (each.reason or ""):
            return each
    return None


async def connect(client: AIOKafkaClient, address: Address) -> AIOKafkaConnection:
    """Return a new connection to a broker, authenticated with the options of a client.

    Raises AuthenticationError, which is fatal (KIP-1050, AuthenticationException), if authentication fails; any other exception
    if the broker is down or a token provider fails: the next attempt may succeed.
    """
    try:
        return await _connect(client, address)
    except SSLCertVerificationError as fault:
        raise AuthenticationError(f"the certificate of the broker at {address} is not trusted: {fault}") from fault
    except _REFUSALS as fault:
        raise AuthenticationError(
            f"the broker at {address} does not accept the credentials of this client: {_refusal(client, fault)}",
            fault.errno,
        ) from fault
    except Exception as fault:
        if (alert := _alert_of(fault)) is not None:
            raise AuthenticationError(f"the broker at {address} refuses this client: {alert}") from alert
        raise


def _refusal(client: AIOKafkaClient, fault: KafkaError) -> str:
    """Return the broker's reason; aiokafka gives its connection object for some codes."""
    if not any(isinstance(each, AIOKafkaConnection) for each in fault.args):
        return str(fault)
    return f"{fault.message} (sasl_mechanism is {client._sasl_mechanism}): {fault.description}"


async def check_authentication(client: AIOKafkaClient, address: Address) -> None:
    """Connect once more to find out why a connection failed. Raises AuthenticationError if it was the authentication."""
    try:
        connection = await connect(client, address)
    except AuthenticationError:
        raise
    except Exception as fault:
        log.debug("no connection to %s: %r", address, fault)
    else:
        connection.close()


async def _connect(client: AIOKafkaClient, address: Address) -> AIOKafkaConnection:
    """Connect and authenticate. Raises the errors of aiokafka."""
    connection = await create_conn(
        *address,
        client_id=client._client_id,
        request_timeout_ms=client._request_timeout_ms,
        max_idle_ms=client._connections_max_idle_ms,
        ssl_context=client._ssl_context,
        security_protocol=_without_sasl(client) if uses_tokens(client) else client._security_protocol,
        sasl_mechanism=client._sasl_mechanism,
        sasl_plain_username=client._sasl_plain_username,
        sasl_plain_password=client._sasl_plain_password,
        sasl_kerberos_service_name=client._sasl_kerberos_service_name,
        sasl_kerberos_domain_name=client._sasl_kerberos_domain_name,
        sasl_oauth_token_provider=client._sasl_oauth_token_provider,
    )
    if uses_tokens(client):
        try:
            await _check_token(
                connection, OAuthAuthenticator(sasl_oauth_token_provider=client._sasl_oauth_token_provider)
            )
        except BaseException:
            connection.close()
            raise
    return connection


def _without_sasl(client: AIOKafkaClient) -> str:
    return str(client._security_protocol).removeprefix("SASL_")


async def _check_token(connection: AIOKafkaConnection, authenticator: OAuthAuthenticator) -> None:
    """Authenticate with a token on a new connection. Raises the errors of aiokafka.

    aiokafka ignores the reason that a broker sends for refusing a token, and considers the connection authenticated.
    """
    shake = await connection.send(SaslHandShakeRequest(TOKENS))
    if shake.error_code:
        raise for_code(shake.error_code)(f"{TOKENS} is none of {', '.join(shake.enabled_mechanisms)}")
    token, _ = await authenticator.step(None)
    answer = await connection.send(SaslAuthenticateRequest(token))
    reason = answer.sasl_auth_bytes
    if reason and not answer.error_code:
        answer = await connection.send(SaslAuthenticateRequest(NOTHING_TO_ADD))
    if reason or answer.error_code:
        raise SaslAuthenticationFailed(f"the token is refused: {answer.error_message or reason.decode()}")
