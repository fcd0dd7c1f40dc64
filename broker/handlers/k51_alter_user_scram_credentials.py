"""AlterUserScramCredentials, key 51, version 0: sets and removes SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.broker.security.scram import credential_of
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from stuntbroker.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from stuntbroker.protocol.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_NUMBERS, ScramMechanism
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents, HasLongRequests, HasScramCredentials, HasSyncer

    class Uses(HasEvents, HasLongRequests, HasScramCredentials, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 51
VERSIONS = range(0, 1)
DUPLICATE_USER_MESSAGE: Final = "A user credential cannot be altered twice in the same request"

Change = ScramCredentialDeletion | ScramCredentialUpsertion
Outcome = tuple[ErrorCode, str | None]


def handle(
    request: Asking[Uses], body: AlterUserScramCredentialsRequest, version: int
) -> AlterUserScramCredentialsResponse | None:
    """Change the credentials of each user, or refuse them; None when the response comes later."""
    steps = _alter_each(request.broker, body)
    return run_in_slices(request, steps)


def _alter_each(broker: Uses, body: AlterUserScramCredentialsRequest) -> Steps[AlterUserScramCredentialsResponse]:
    changes: dict[str, Change] = {}
    results: dict[str, Outcome] = {}
    wanted: list[Change] = [*body.deletions, *body.upsertions]
    for change in wanted:
        yield ELEMENT_COST
        user = change.name
        if user not in changes:
            changes[user] = change
            results[user] = _refusal(broker, change) or (ErrorCode.NONE, None)
        elif results[user][0] == ErrorCode.NONE:  # Else the first error counts, as in Kafka.
            results[user] = ErrorCode.DUPLICATE_RESOURCE, DUPLICATE_USER_MESSAGE
    for user, change in changes.items():
        if results[user][0] == ErrorCode.NONE:
            results[user] = _alter(broker, change, SCRAM_NUMBERS[change.mechanism])
            yield cost_of_change(broker.syncer is not None, 1)
    return AlterUserScramCredentialsResponse(
        0, [AlterUserScramCredentialsResult(user, *outcome) for user, outcome in results.items()]
    )


def _refusal(broker: Uses, change: Change) -> Outcome | None:
    """Return the error of a change, in Kafka's order of checks; None if it is valid."""
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    mechanism = SCRAM_NUMBERS.get(change.mechanism)
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations < ITERATIONS_MIN:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        if change.iterations > ITERATIONS_MAX:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        if not change.salted_password:
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
    elif broker.scram_credentials.get(change.name, mechanism) is None:
        return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return None


def _alter(broker: Uses, change: Change, mechanism: ScramMechanism) -> Outcome:
    credential = None
    if isinstance(change, ScramCredentialUpsertion):
        salted, salt = bytes(change.salted_password), bytes(change.salt)
        credential = credential_of(mechanism, salted, salt, change.iterations)
    try:
        broker.scram_credentials.set(change.name, mechanism, credential)
    except StorageError as fault:
        return ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
    what = "user_scram_credential_set" if credential is not None else "user_scram_credential_removed"
    broker.events.info(what, user=change.name, mechanism=mechanism.name)
    return ErrorCode.NONE, None
