"""SCRAM credentials of users (KIP-554), set by requests and kept in the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stuntbroker.broker.security.scram import ScramCredential
from stuntbroker.protocol.scram import ScramMechanism

Stored = list[Any]
"""Salt, iterations, stored key and server key, as in the journal: the bytes as hex digits."""


class ScramCredentials:
    """The SCRAM credentials of every user that has some."""

    def __init__(self, journal: Callable[[dict[str, Any]], None], known: Mapping[str, dict[str, Stored]]) -> None:
        """Create the credentials with those of the journal, `known`: user -> {name of the mechanism -> credential}."""
        self._journal = journal
        self.by_user = {
            user: {name: _loaded(stored) for name, stored in credentials.items()} for user, credentials in known.items()
        }
        """User -> {name of the mechanism -> credential}."""

    def get(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user for a mechanism, if there is one."""
        return self.by_user.get(user, {}).get(mechanism.name)

    def set(self, user: str, mechanism: ScramMechanism, credential: ScramCredential | None) -> None:
        """Set or remove (None) a credential, after writing the change to the journal.

        Raises StorageError; then nothing has changed.
        """
        before = self.by_user.get(user, {})
        changed = {name: each for name, each in before.items() if name != mechanism.name}
        if credential is not None:
            changed[mechanism.name] = credential
        if changed == before:
            return  # Another request has removed it in the meantime, or set the same.
        self._journal(change_of(user, {name: _stored(each) for name, each in changed.items()}))
        if changed:
            self.by_user[user] = changed
        else:
            del self.by_user[user]


def change_of(user: str, credentials: Mapping[str, Stored]) -> dict[str, Any]:
    """Return the change of the journal that sets all credentials of a user."""
    return {"scram_user": user, "credentials": dict(credentials)}


def _stored(credential: ScramCredential) -> Stored:
    return [
        credential.salt.hex(),
        credential.iterations,
        credential.stored_key.hex(),
        credential.server_key.hex(),
    ]


def _loaded(stored: Stored) -> ScramCredential:
    salt, iterations, stored_key, server_key = stored
    return ScramCredential(bytes.fromhex(salt), iterations, bytes.fromhex(stored_key), bytes.fromhex(server_key))
