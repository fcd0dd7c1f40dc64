"""ApiVersions, key 18, versions 0-4: the APIs and versions that the broker serves.

v3 flexible, features as tags, the client's name and version. v4 features that begin at level 0 may be listed.
The response header is never flexible. A version that is not served gets a version 0 response with the served range.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.properties import KIP_588
from stuntbroker.broker.metadata.features import LEVEL_MAX
from stuntbroker.broker.requests.apis import WITHOUT_TWO_PHASE
from stuntbroker.broker.requests.personality import has_features, versions_of
from stuntbroker.protocol.api_keys import PRODUCE
from stuntbroker.protocol.caches import keep
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.features import KIP_588_FEATURE, TRANSACTION_VERSION
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasConfig, HasFeatures

    class Uses(HasConfig, HasFeatures, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 18
VERSIONS = range(0, 5)
NAMES_FROM: Final = 3
LEVEL_ZERO_FROM: Final = 4
ENCODED_MAX: Final = 100
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Encoded:
    """A response that is encoded once and reused, as every connection begins with this request."""

    __slots__ = ("body",)

    def __init__(self, response: ApiVersionsResponse, version: int) -> None:
        body = bytearray()
        response.encode(body, version)
        self.body = bytes(body)

    def encode(self, out: bytearray, version: int) -> None:
        """Append the response to `out`."""
        out += self.body


_encoded: dict[tuple[int, int, int, bool, bool, str], Encoded] = {}
"""Encoded responses, by everything that they depend on.

Request version, level and epoch of the features, whether two-phase commit is served, whether time-outs have their own error
code (KIP-588), personality of the listener.
"""


def handle(request: Asking[Uses], body: ApiVersionsRequest, version: int) -> ApiVersionsResponse | Encoded:
    """Return the APIs, their versions and the features of this broker."""
    if version >= NAMES_FROM and not (
        _NAME.fullmatch(body.client_software_name) and _NAME.fullmatch(body.client_software_version)
    ):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    broker = request.broker
    level, epoch = broker.features.transaction_version, broker.features.epoch
    two_phase = broker.config["transaction.two.phase.commit.enable"]
    listener = request.listener
    state = level, epoch, two_phase, listener.profile == KIP_588, listener.personality
    encoded = _encoded.get((version, *state))
    if encoded is None:
        encoded = keep(_encoded, (version, *state), Encoded(_served(version, *state), version), ENCODED_MAX)
    return encoded


def _served(
    version: int, level: int, epoch: int, two_phase: bool, kip_588: bool, personality: str
) -> ApiVersionsResponse:
    shows_features = has_features(personality)
    finalized = [FinalizedFeatureKey(TRANSACTION_VERSION, level, level)] if level and shows_features else []
    if kip_588:
        # Unlike Kafka: the feature announces the error codes of the profile kip-588, whose numbers Kafka has reused.
        finalized.append(FinalizedFeatureKey(KIP_588_FEATURE, 1, 1))
    withheld = {} if two_phase else WITHOUT_TWO_PHASE
    return ApiVersionsResponse(
        ErrorCode.NONE,
        # librdkafka disables compression and idempotence unless Produce begins at version 0 (KAFKA-18659).
        [
            ApiVersion(key, 0 if key == PRODUCE else low, min(high, withheld.get(key, high)))
            for key, (low, high) in versions_of(personality).items()
        ],
        0,
        [SupportedFeatureKey(TRANSACTION_VERSION, 0, LEVEL_MAX)]
        if version >= LEVEL_ZERO_FROM and shows_features
        else [],
        epoch if shows_features else -1,
        finalized,
    )
