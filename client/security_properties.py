"""Security of a client's connections, from the properties of Kafka's clients:

security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";
ssl.truststore.location=/certificates/truststore.jks
ssl.truststore.password=secret
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.addresses import SECURITY_PROTOCOLS

if TYPE_CHECKING:
    from stuntbroker.client.security import Security

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS_CONFIG: Final = "sasl.jaas.config"
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
PROPERTIES: Final = (
    PROTOCOL,
    JAAS_CONFIG,
    MECHANISM,
    "ssl.enabled.protocols",
    ENDPOINT_IDENTIFICATION,
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Properties that `security_of` understands. Types of stores and `ssl.protocol` change nothing: formats are recognised.

Commands also understand librdkafka's `enable.ssl.certificate.verification`.
"""
JAAS_CONTEXT: Final = "KafkaClient"
"""Context of clients in a JAAS file."""


class SecurityError(ValueError):
    """Properties with which no connection can be made. The message names the property."""


def security_of(properties: Mapping[str, str], jaas_file: str = "") -> Security | None:
    """Return the security options that the properties of a client describe; None for PLAINTEXT. Raises SecurityError.

    `jaas_file`: path of the file with the user, for properties without `sasl.jaas.config`.
    """
    properties = {name: value.strip() for name, value in properties.items()}  # As Kafka does.
    protocol = properties.get(PROTOCOL, PLAINTEXT).upper()
    if protocol == PLAINTEXT:
        return None
    if protocol not in SECURITY_PROTOCOLS:
        raise SecurityError(f"{PROTOCOL}={protocol}: it must be one of {', '.join(SECURITY_PROTOCOLS)}")
    security: Security = {"security_protocol": protocol}
    if protocol.startswith("SASL_"):
        _add_user(security, properties, jaas_file)
    if protocol.endswith("SSL"):
        from stuntbroker.security.tls import TlsError, client_context  # Only here: ssl takes 15 ms to import.

        given = {ENDPOINT_IDENTIFICATION: "https", **properties}
        try:
            security["ssl_context"] = client_context(lambda name: given.get(name, ""))
        except TlsError as fault:
            raise SecurityError(str(fault)) from fault
    return security


def _add_user(security: Security, properties: Mapping[str, str], jaas_file: str) -> None:
    """Add the mechanism, the user and the password. Raises SecurityError."""
    from stuntbroker.client.security import BLOCKING_MECHANISMS

    mechanism = properties.get(MECHANISM, "GSSAPI")
    if mechanism not in BLOCKING_MECHANISMS:
        default = "" if MECHANISM in properties else ", the default,"
        raise SecurityError(
            f"{MECHANISM}={mechanism}{default} is not one that this client has: {', '.join(BLOCKING_MECHANISMS)}"
        )
    where, options = _login(properties, jaas_file)
    if missing := [name for name in ("username", "password") if name not in options]:
        raise SecurityError(f"{where}: it has no {' and no '.join(missing)}")
    security["sasl_mechanism"] = mechanism
    security["sasl_plain_username"] = options["username"]
    security["sasl_plain_password"] = options["password"]


def _login(properties: Mapping[str, str], jaas_file: str) -> tuple[str, dict[str, str]]:
    """Return where the client's login module is configured, and its options. Raises SecurityError.

    As in Kafka, the property comes before the file.
    """
    from stuntbroker.security.jaas import JaasError, parse_jaas_config, parse_jaas_file

    where = JAAS_CONFIG
    try:
        if where in properties:
            return where, parse_jaas_config(properties[where]).options
        if not jaas_file:
            raise SecurityError(f"{where}: not set; it must have the user and the password")
        where = jaas_file
        with open(where, encoding="utf-8") as file:
            modules = parse_jaas_file(file.read()).get(JAAS_CONTEXT, [])
    except OSError as fault:
        raise SecurityError(f"{where}: {fault.strerror}") from fault
    except (JaasError, UnicodeDecodeError) as fault:
        raise SecurityError(f"{where}: {fault}") from fault
    if not modules:
        raise SecurityError(f"{where}: there is no {JAAS_CONTEXT} in it")
    return where, modules[0].options
