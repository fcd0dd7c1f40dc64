"""The users of one listener, and their passwords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.security.scram import ScramCredential, credential_of, salted_password
from stuntbroker.protocol.scram import ITERATIONS_MIN, ScramMechanism

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.scram_credentials import ScramCredentials

SALT: Final = b"stuntbroker"
"""Salt of the passwords in the configuration, which are not secret."""


class Users:
    """Passwords from the configuration, for all mechanisms, and SCRAM credentials that were set by requests."""

    def __init__(self, everywhere: Mapping[str, str], plain_only: Mapping[str, str], stored: ScramCredentials) -> None:
        """`everywhere`: user -> password, for PLAIN and SCRAM; `plain_only`: from a JAAS configuration, for PLAIN."""
        self._everywhere = everywhere
        self._plain_only = plain_only
        self._stored = stored

    def password(self, user: str) -> str | None:
        """Return the password of a user for PLAIN; None if there is no such user."""
        return self._plain_only.get(user, self._everywhere.get(user))

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the SCRAM credential of a user: the one that was set by a request, or that of the configuration."""
        stored = self._stored.get(user, mechanism)
        if stored is not None or user not in self._everywhere:
            return stored
        salted = salted_password(mechanism, self._everywhere[user], SALT, ITERATIONS_MIN)
        return credential_of(mechanism, salted, SALT, ITERATIONS_MIN)
