"""Features of a cluster, such as `transaction.version`: reading and changing their levels (KIP-584)."""

from __future__ import annotations

from typing import NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import check
from stuntbroker.client.versions import SOFTWARE
from stuntbroker.protocol.api_keys import API_VERSIONS, UPDATE_FEATURES
from stuntbroker.protocol.features import UpgradeType
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from stuntbroker.protocol.messages.update_features_response import UpdateFeaturesResponse


class FeatureLevel(NamedTuple):
    """A feature: the levels that the broker supports, and the finalized one."""

    name: str
    min_level: int
    max_level: int
    finalized_level: int
    """0 if the feature is not in use."""


class Features(NamedTuple):
    """All features of a cluster, and the epoch of their finalized levels."""

    features: tuple[FeatureLevel, ...]
    epoch: int


def describe_features(cluster: Cluster) -> Features:
    """Return all features of a cluster, sorted by name."""

    def attempt() -> Features:
        answer = cluster.ask(
            cluster.controller_id(), API_VERSIONS, ApiVersionsRequest(*SOFTWARE), ApiVersionsResponse, 3
        )
        check("reading features", answer.error_code)
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        levels = (
            FeatureLevel(each.name, each.min_version, each.max_version, finalized.get(each.name, 0))
            for each in answer.supported_features
        )
        return Features(tuple(sorted(levels)), answer.finalized_features_epoch)

    return cluster.retrying(attempt)


def update_features(
    cluster: Cluster, levels: dict[str, int], upgrade_type: UpgradeType, validate_only: bool = False
) -> None:
    """Set the levels of features, all or none; with `validate_only`, only check them. Raises BrokerError."""
    updates = [
        FeatureUpdateKey(name, level, upgrade_type is not UpgradeType.UPGRADE, upgrade_type)
        for name, level in levels.items()
    ]

    def attempt() -> None:
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
        answer = cluster.ask(cluster.controller_id(), UPDATE_FEATURES, request, UpdateFeaturesResponse, 1)
        check("changing features", answer.error_code, answer.error_message)

    cluster.retrying(attempt)
