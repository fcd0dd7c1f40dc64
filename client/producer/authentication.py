"""Whether a broker refuses who connects to it. aiokafka has one answer for every failed connection, and would try for ever."""

from __future__ import annotations

from ssl import SSLCertVerificationError
from typing import Final

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from stuntbroker.client.producer.errors import AuthenticationError
from stuntbroker.client.producer.session import log
from stuntbroker.protocol.addresses import Address

_REFUSALS: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    SSLCertVerificationError,
)


def is_authenticated(client: AIOKafkaClient) -> bool:
    """Return whether connections have credentials or certificates that can be refused."""
    return bool(client._security_protocol != "PLAINTEXT")


async def check_authentication(client: AIOKafkaClient, address: Address) -> None:
    """Connect once more, to learn why a connection failed. Raises AuthenticationError if it is refused for who it is.

    Does nothing without credentials or certificates. A refusal is fatal (KIP-1050, AuthenticationException).
    """
    if not is_authenticated(client):
        return
    try:
        connection = await create_conn(
            *address,
            client_id=client._client_id,
            request_timeout_ms=client._request_timeout_ms,
            ssl_context=client._ssl_context,
            security_protocol=client._security_protocol,
            sasl_mechanism=client._sasl_mechanism,
            sasl_plain_username=client._sasl_plain_username,
            sasl_plain_password=client._sasl_plain_password,
            sasl_kerberos_service_name=client._sasl_kerberos_service_name,
            sasl_kerberos_domain_name=client._sasl_kerberos_domain_name,
            sasl_oauth_token_provider=client._sasl_oauth_token_provider,
        )
    except _REFUSALS as fault:
        code = fault.errno if isinstance(fault, KafkaError) else None
        raise AuthenticationError(
            f"the broker at {address} and this client do not trust each other: {fault}", code
        ) from fault
    except Exception as fault:  # It is away, or a token provider fails: the next attempt may succeed.
        log.debug("no connection to %s: %r", address, fault)
    else:
        connection.close()
