"""DescribeUserScramCredentials, key 50, version 0: the SCRAM mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from stuntbroker.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from stuntbroker.protocol.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasScramCredentials

    class Uses(HasLongRequests, HasScramCredentials, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 50
VERSIONS = range(0, 1)


def handle(
    request: Asking[Uses], body: DescribeUserScramCredentialsRequest, version: int
) -> DescribeUserScramCredentialsResponse | None:
    """Describe the users, or all if none is named; None when the response comes later."""
    steps = _describe(request.broker, body)
    return run_in_slices(request, steps)


def _describe(broker: Uses, body: DescribeUserScramCredentialsRequest) -> Steps[DescribeUserScramCredentialsResponse]:
    known = broker.scram_credentials.by_user
    named = Counter(user.name for user in body.users or ()) or Counter(list(known))
    results = []
    for name, count in named.items():
        yield ELEMENT_COST
        error, message, infos = ErrorCode.NONE, "", []
        if count > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif name not in known:
            error = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            infos = [
                CredentialInfo(SCRAM_MECHANISMS[each].number, known[name][each].iterations) for each in known[name]
            ]
        results.append(DescribeUserScramCredentialsResult(name, error, message, infos))
    return DescribeUserScramCredentialsResponse(0, ErrorCode.NONE, "", results)
