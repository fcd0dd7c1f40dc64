"""Properties of one listener, and which properties are secret, for a listener or for all."""

from __future__ import annotations

from typing import Final

from stuntbroker.broker.configuration.dynamic_properties import DYNAMIC, PASSWORD
from stuntbroker.broker.configuration.properties import BROKER, TOPIC

LISTENER_PREFIX: Final = "listener.name."
SESSION_MS_MAX: Final = "connections.max.reauth.ms"
PER_LISTENER: Final = frozenset(name for name in BROKER if name.startswith(("ssl.", "sasl."))) | {SESSION_MS_MAX}
"""Properties that `listener.name.<listener>.` sets for one listener."""
OF_AUTHORIZERS: Final = ("super.users", "allow.everyone.if.no.acl.found")
"""Properties without effect while there is no authorizer."""
MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
"""SASL mechanisms, as the names of properties have them."""
JAAS_CONFIG: Final = "sasl.jaas.config"
CLIENT_AUTH: Final = "ssl.client.auth"
PER_MECHANISM: Final = frozenset(
    {
        f"plain.{JAAS_CONFIG}",
        f"oauthbearer.{JAAS_CONFIG}",
        *(f"{name}.{SESSION_MS_MAX}" for name in MECHANISMS),
    }
)
"""Properties of one mechanism of a listener, after `listener.name.<listener>.`"""


def is_listener_property(name: str) -> bool:
    """Return whether a property has an effect on one listener: `listener.name.<listener>.<property>`."""
    if not name.startswith(LISTENER_PREFIX):
        return False
    own = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return own in PER_LISTENER or own in PER_MECHANISM


def is_secret(name: str) -> bool:
    """Return whether a property, with the prefix of a listener or without, has a password or a key, or is unknown.

    An unknown one may be the password of a plug-in.
    """
    if name in TOPIC:
        return False
    return kind_of(name) in (None, PASSWORD)


def kind_of(name: str) -> int | None:
    """Return the type of a broker property, with the prefix of a listener or without; None if it is unknown."""
    from stuntbroker.broker.configuration.kafka_properties import UNUSED  # Only loaded to show a property.

    own = base_of(name)
    if own in OF_AUTHORIZERS:  # Kafka's definition does not have them.
        return None
    if own in BROKER:
        return BROKER[own].kind
    return UNUSED[own].kind if own in UNUSED else DYNAMIC.get(own)


def base_of(name: str) -> str:
    """Return the name of a property without the prefix of a listener and a mechanism."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    own = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    mechanism, _, of_mechanism = own.partition(".")
    return of_mechanism if mechanism in MECHANISMS else own


def prefix_of(listener_name: str) -> str:
    """Return the prefix of the properties of one listener."""
    return f"{LISTENER_PREFIX}{listener_name.lower()}."
