"""TLS and SASL of one listener, from its properties."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.configuration.listener_properties import CLIENT_AUTH, JAAS_CONFIG, SESSION_MS_MAX, prefix_of
from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.security.authentication import Authentication
from stuntbroker.broker.security.mechanisms import OAUTHBEARER, PLAIN, SERVED, TokenRules, new_mechanism
from stuntbroker.broker.security.subject import MappingError, MappingRules, parse_mapping_rules, subject_of, user_of
from stuntbroker.broker.security.users import Users
from stuntbroker.security.jaas import JaasError, parse_jaas_config, parse_jaas_file
from stuntbroker.security.tls import TlsError, server_context

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.metadata.scram_credentials import ScramCredentials
    from stuntbroker.broker.random_source import RandomSource

MAPPING_RULES: Final = "ssl.principal.mapping.rules"
NOT_TLS: Final = ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "NOT_SSL_RECORD_OR_TLS", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons for refusing a client that does not speak TLS, and would not understand an alert."""
JAAS_CONTEXT: Final = "KafkaServer"
"""Context of brokers in a JAAS file; one for a listener has its name before, `sasl_ssl.KafkaServer`."""
USER_OPTION: Final = "user_"
"""Prefix of the options of PlainLoginModule that set passwords: `user_alice="secret"`."""


class ListenerSecurity:
    """TLS and SASL requirements of a listener."""

    def __init__(self, name: str, protocol: str, config: BrokerConfig) -> None:
        """Read certificates, keys and passwords. Raises ConfigError."""
        self.name = name
        self.protocol = protocol
        """SSL, SASL_PLAINTEXT or SASL_SSL."""
        self.mechanisms = _mechanisms(name, config) if protocol.startswith("SASL_") else ()
        """SASL mechanisms, in Kafka's order; empty without SASL."""
        self._everywhere = _passwords(config["stuntbroker.users"])
        self._of_jaas = _jaas_passwords(name, config) if PLAIN in self.mechanisms else {}
        self._token_rules = _token_rules(name, config) if OAUTHBEARER in self.mechanisms else TokenRules()
        self._session_ms_max: dict[str, int] = {
            mechanism: config.of_listener(name, SESSION_MS_MAX, mechanism) for mechanism in self.mechanisms
        }
        self.receive_size_max: int = config.of_listener(name, "sasl.server.max.receive.size")
        """Maximum bytes of a request before authentication."""
        self.tls: ssl.SSLContext | None = None
        """The context for new connections; None without TLS."""
        self._mapping_rules: MappingRules = ()
        if protocol.endswith("SSL"):
            try:
                self.tls = server_context(lambda prop: self._tls_property(config, prop))
                self._mapping_rules = parse_mapping_rules(config.of_listener(name, MAPPING_RULES))
            except TlsError as fault:
                raise ConfigError(f"listener {name}: {fault}") from fault
            except MappingError as fault:
                raise ConfigError(f"listener {name}: {MAPPING_RULES}: {fault}") from fault
        # Unlike Kafka: without any user, the broker does not start either when JAAS has a login module.
        if PLAIN in self.mechanisms and not self._everywhere and not self._of_jaas:
            raise ConfigError(
                f"listener {name}: sasl.enabled.mechanisms has PLAIN, and there is no user: set stuntbroker.users=NAME:PASSWORD, "
                f"or {prefix_of(name)}plain.{JAAS_CONFIG}"
            )

    def _tls_property(self, config: BrokerConfig, prop: str) -> str:
        own = prefix_of(self.name) + prop
        # Clients with SASL need no certificate, unless the listener itself asks for one, as in Kafka.
        if prop == CLIENT_AUTH and self.mechanisms and own not in config.given:
            return "none"
        return str(config.of_listener(self.name, prop))

    def user_of_certificate(self, certificate: bytes) -> str:
        """Return the user that a client's certificate (DER) names. Raises NoMatchingRule, and ValueError."""
        return user_of(subject_of(certificate), self._mapping_rules)

    def new_authentication(self, stored: ScramCredentials, random_source: RandomSource, clock: Clock) -> Authentication:
        """Return the authentication of a new connection."""
        users = Users(self._everywhere, self._of_jaas, stored)
        return Authentication(
            self.mechanisms,
            lambda mechanism: new_mechanism(mechanism, users, random_source, clock.now_ms, self._token_rules),
            clock,
            self._session_ms_max.__getitem__,
        )

    def report_handshakes(self, failed: Callable[[str], None]) -> None:
        """Call `failed` with the reason whenever a TLS handshake fails; no connection is made then."""
        if self.tls is not None:
            self.tls.sslobject_class = _reporting(failed)


def _reporting(failed: Callable[[str], None]) -> type[ssl.SSLObject]:
    class ReportingSSLObject(ssl.SSLObject):
        """Reports why a handshake fails, and lets the event loop send the alert, neither of which it does on its own."""

        _fault: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self._fault is not None:
                raise self._fault
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as fault:
                failed(_explained(fault))
                if fault.reason in NOT_TLS:
                    raise
                # A loop that believes that the handshake waits for the client sends what there is to send. A client closes
                # the connection after the alert; one that does not is closed with the other unfinished handshakes.
                self._fault = fault
                raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert has to be sent") from fault

    return ReportingSSLObject


def _explained(fault: ssl.SSLError) -> str:
    reason = fault.reason or str(fault)
    advice = {
        "HTTP_REQUEST": "the client speaks HTTP",
        **dict.fromkeys(NOT_TLS[1:], "the client does not speak TLS: set security.protocol in the client"),
        "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that the listener has (ssl.enabled.protocols)",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is required",
        "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not trusted by ssl.truststore",
    }.get(reason)
    if advice is None and "ALERT" in reason:
        advice = "the client refused the broker's certificate or its versions of TLS"
    return f"{advice} ({reason})" if advice else reason


def _mechanisms(name: str, config: BrokerConfig) -> tuple[str, ...]:
    """Return the enabled mechanisms in the order of SERVED. Raises ConfigError."""
    enabled = {part.strip() for part in config.of_listener(name, "sasl.enabled.mechanisms").split(",")}
    if unserved := sorted(enabled - set(SERVED)):
        # Unlike Kafka: GSSAPI is its default; Kerberos is not served.
        what = ", ".join(filter(None, unserved)) or "an empty list"
        raise ConfigError(
            f"sasl.enabled.mechanisms: listener {name}: {what} is not served: set some of {', '.join(SERVED)}"
        )
    return tuple(mechanism for mechanism in SERVED if mechanism in enabled)


def _passwords(text: str) -> dict[str, str]:
    """Return user -> password of a list of NAME:PASSWORD."""
    pairs = (entry.partition(":") for entry in map(str.strip, text.split(",")) if entry)
    return {name: password for name, _, password in pairs}


def _jaas_passwords(name: str, config: BrokerConfig) -> dict[str, str]:
    """Return user -> password of the JAAS configuration for PLAIN. Raises ConfigError."""
    return {
        option.removeprefix(USER_OPTION): password
        for option, password in _jaas_options(name, PLAIN, ".PlainLoginModule", config).items()
        if option.startswith(USER_OPTION)
    }


def _token_rules(name: str, config: BrokerConfig) -> TokenRules:
    """Return what the JAAS configuration for OAUTHBEARER requires of tokens. Raises ConfigError."""
    options = _jaas_options(name, OAUTHBEARER, ".OAuthBearerLoginModule", config)

    def option(what: str, default: str) -> str:
        return options.get(f"unsecuredValidator{what}", "").strip() or default

    skew_ms = option("AllowableClockSkewMs", "0")
    if not re.fullmatch("[0-9]{1,9}", skew_ms):
        raise ConfigError(f"listener {name}: unsecuredValidatorAllowableClockSkewMs: {skew_ms!r} is not a number of ms")
    return TokenRules(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        tuple(option("RequiredScope", "").split()),
        int(skew_ms),
    )


def _jaas_options(name: str, mechanism: str, module: str, config: BrokerConfig) -> dict[str, str]:
    """Return the options of a login module for a mechanism. Raises ConfigError.

    As in Kafka, the property of the listener and its mechanism comes before the contexts of the JAAS file.
    """
    prop = f"{prefix_of(name)}{mechanism.lower()}.{JAAS_CONFIG}"
    if prop in config.given:
        try:
            return parse_jaas_config(config.given[prop]).options
        except JaasError as fault:
            raise ConfigError(f"{prop}: {fault}") from fault
    if path := config["stuntbroker.jaas.file"]:
        return _options_of_file(path, name, module)
    return {}


def _options_of_file(path: str, name: str, module_name: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            contexts = parse_jaas_file(file.read())
    except OSError as fault:
        raise ConfigError(f"stuntbroker.jaas.file: {path}: {fault.strerror}") from fault
    except (JaasError, UnicodeDecodeError) as fault:
        raise ConfigError(f"stuntbroker.jaas.file: {path}: {fault}") from fault
    options: dict[str, str] = {}
    for module in contexts.get(f"{name.lower()}.{JAAS_CONTEXT}") or contexts.get(JAAS_CONTEXT, []):
        if module.class_name.endswith(module_name):
            options |= module.options
    return options
