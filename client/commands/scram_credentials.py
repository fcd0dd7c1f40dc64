"""SCRAM credentials of users: reading, setting and removing them (KIP-554)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import check
from stuntbroker.protocol.api_keys import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from stuntbroker.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from stuntbroker.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from stuntbroker.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from stuntbroker.protocol.scram import ITERATIONS_MIN, SCRAM_MECHANISMS, SCRAM_NUMBERS, ScramMechanism

SALT_SIZE: Final = 16


class NewCredential(NamedTuple):
    """A password, and how often it is hashed."""

    password: str
    iterations: int = ITERATIONS_MIN


class UserCredentials(NamedTuple):
    """A user with the mechanisms for which there is a credential."""

    user: str
    iterations: dict[str, int]
    """Mechanism -> number of iterations."""


def describe_scram_credentials(cluster: Cluster, users: Collection[str] | None = None) -> list[UserCredentials]:
    """Return the credentials of those of these users, or of all, that have any. Raises BrokerError."""

    def attempt() -> list[UserCredentials]:
        request = DescribeUserScramCredentialsRequest(None if users is None else [UserName(user) for user in users])
        answer = cluster.ask(
            cluster.controller_id(), DESCRIBE_USER_SCRAM_CREDENTIALS, request, DescribeUserScramCredentialsResponse
        )
        check("reading SCRAM credentials", answer.error_code, answer.error_message)
        credentials = []
        for each in answer.results:
            if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            check(f"the credentials of user {each.user!r}", each.error_code, each.error_message)
            iterations = {_name_of(info.mechanism): info.iterations for info in each.credential_infos}
            credentials.append(UserCredentials(each.user, iterations))
        return credentials

    return cluster.retrying(attempt)


def alter_scram_credentials(
    cluster: Cluster, user: str, values: Mapping[str, NewCredential], deleted: Collection[str] = ()
) -> None:
    """Set and remove credentials of a user, by mechanism. Raises BrokerError.

    The broker gets salted passwords only. It takes one change of a user per request, so that they are made one by one.
    """
    requests = [
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(user, SCRAM_MECHANISMS[name].number)])
        for name in deleted
    ]
    requests += [
        AlterUserScramCredentialsRequest(upsertions=[_upsertion(user, SCRAM_MECHANISMS[name], credential)])
        for name, credential in values.items()
    ]

    def attempt(request: AlterUserScramCredentialsRequest) -> None:
        answer = cluster.ask(
            cluster.controller_id(), ALTER_USER_SCRAM_CREDENTIALS, request, AlterUserScramCredentialsResponse
        )
        for each in answer.results:
            check(f"changing the credentials of user {user!r}", each.error_code, each.error_message)

    for request in requests:
        cluster.retrying(partial(attempt, request))


def _name_of(number: int) -> str:
    return SCRAM_NUMBERS[number].name if number in SCRAM_NUMBERS else str(number)


def _upsertion(user: str, mechanism: ScramMechanism, credential: NewCredential) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(SALT_SIZE)
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, credential.password.encode(), salt, credential.iterations)
    return ScramCredentialUpsertion(user, mechanism.number, credential.iterations, salt, salted)
