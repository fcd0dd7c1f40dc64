"""Security of a command's connections, from the properties of Kafka's clients.

`--command-config FILE` names the same file that Kafka's commands take:

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-256
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";
    ssl.truststore.location=/certificates/truststore.jks
    ssl.truststore.password=secret
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.cli.arguments import UsageError, non_empty_value

if TYPE_CHECKING:
    from stuntbroker.client.security import Security

PLAINTEXT: Final = "PLAINTEXT"
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
JAAS_CONTEXT: Final = "KafkaClient"
"""Context of clients in a JAAS file."""


class SecurityError(ValueError):
    """Properties with which no connection can be made. The message names the property."""


def security_of(properties: Mapping[str, str]) -> Security | None:
    """Return the security options that the properties of a client describe; None for PLAINTEXT. Raises SecurityError."""
    properties = {name: value.strip() for name, value in properties.items()}  # As Kafka does.
    protocol = properties.get("security.protocol", PLAINTEXT).upper()
    if protocol == PLAINTEXT:
        return None
    from stuntbroker.broker.security.tls import TlsError, client_context  # Only here: ssl takes 15 ms to import.
    from stuntbroker.protocol.addresses import SECURITY_PROTOCOLS

    if protocol not in SECURITY_PROTOCOLS:
        raise SecurityError(f"security.protocol={protocol}: it must be one of {', '.join(SECURITY_PROTOCOLS)}")
    security: Security = {"security_protocol": protocol}
    if protocol.startswith("SASL_"):
        _add_user(security, properties)
    if protocol.endswith("SSL"):
        given = {ENDPOINT_IDENTIFICATION: "https", **properties}
        try:
            security["ssl_context"] = client_context(lambda name: given.get(name, ""))
        except TlsError as fault:
            raise SecurityError(str(fault)) from fault
    return security


def security(given: dict[str, list[str]]) -> Security | None:
    """Return the security options in the file of `--command-config`; None without one, and for PLAINTEXT. Raises UsageError."""
    path = non_empty_value(given, "--command-config")
    if not path:
        return None
    from stuntbroker.cli.serving.properties import parse_java

    try:
        with open(path, "rb") as file:
            return security_of(parse_java(file.read()))
    except OSError as fault:
        raise UsageError(f"--command-config {path}: {fault.strerror}") from None
    except ValueError as fault:
        raise UsageError(f"--command-config {path}: {fault}") from None


def _add_user(security: Security, properties: Mapping[str, str]) -> None:
    """Add the mechanism, the user and the password. Raises SecurityError."""
    from stuntbroker.client.security import BLOCKING_MECHANISMS

    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in BLOCKING_MECHANISMS:
        default = "" if "sasl.mechanism" in properties else ", the default,"
        raise SecurityError(
            f"sasl.mechanism={mechanism}{default} is not one that this command has: {', '.join(BLOCKING_MECHANISMS)}"
        )
    where, options = _login(properties)
    if missing := [name for name in ("username", "password") if name not in options]:
        raise SecurityError(f"{where}: it has no {' and no '.join(missing)}")
    security["sasl_mechanism"] = mechanism
    security["sasl_plain_username"] = options["username"]
    security["sasl_plain_password"] = options["password"]


def _login(properties: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return where the client's login module is configured, and its options. Raises SecurityError.

    As in Kafka, the property comes before the JAAS file that KAFKA_OPTS names.
    """
    from stuntbroker.broker.security.jaas import JaasError, parse_jaas_config, parse_jaas_file
    from stuntbroker.cli.serving.environment import JAAS_FILE

    where = "sasl.jaas.config"
    try:
        if where in properties:
            return where, parse_jaas_config(properties[where]).options
        jaas_file = JAAS_FILE.search(os.environ.get("KAFKA_OPTS", ""))
        if jaas_file is None:
            raise SecurityError(f"{where}: not set; it must have the user and the password")
        where = jaas_file[1]
        with open(where, encoding="utf-8") as file:
            modules = parse_jaas_file(file.read()).get(JAAS_CONTEXT, [])
    except OSError as fault:
        raise SecurityError(f"{where}: {fault.strerror}") from fault
    except (JaasError, UnicodeDecodeError) as fault:
        raise SecurityError(f"{where}: {fault}") from fault
    if not modules:
        raise SecurityError(f"{where}: there is no {JAAS_CONTEXT} in it")
    return where, modules[0].options
