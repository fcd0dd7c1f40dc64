"""Properties of one listener, and which properties are secret, for a listener or for all."""

from __future__ import annotations

from typing import Final

from stuntbroker.broker.configuration.dynamic_properties import DYNAMIC, PASSWORD
from stuntbroker.broker.configuration.properties import BROKER

LISTENER_PREFIX: Final = "listener.name."
SESSION_MS_MAX: Final = "connections.max.reauth.ms"
PER_LISTENER: Final = frozenset(name for name in BROKER if name.startswith(("ssl.", "sasl."))) | {SESSION_MS_MAX}
"""Properties that `listener.name.<listener>.` sets for one listener."""
UNUSED_SECRETS: Final = frozenset(
    [
        "delegation.token.secret.key",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
    ]
)
"""Passwords and keys without effect here that cannot change while the broker runs."""
JAAS_CONFIG: Final = "sasl.jaas.config"
CLIENT_AUTH: Final = "ssl.client.auth"
PER_MECHANISM: Final = frozenset(
    {
        f"plain.{JAAS_CONFIG}",
        f"oauthbearer.{JAAS_CONFIG}",
        *(f"{name}.{SESSION_MS_MAX}" for name in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")),
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
    """Return whether a property of the broker, with the prefix of a listener or without, has a password or a key."""
    own = name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name
    return (
        own.endswith(JAAS_CONFIG)
        or own in UNUSED_SECRETS
        or PASSWORD in (DYNAMIC.get(own), BROKER[own].kind if own in BROKER else None)
    )
