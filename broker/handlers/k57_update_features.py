"""UpdateFeatures, key 57, versions 0-2: changes the level of `transaction.version`. All updates are made, or none.

v0 supports no downgrade: Kafka ignores AllowDowngrade. v1 upgrade type and ValidateOnly. v2 removes the results by feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.features import TRANSACTION_VERSION
from stuntbroker.protocol.messages.update_features_request import UpdateFeaturesRequest
from stuntbroker.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents, HasFeatures, HasLongRequests, HasNodeId

    class Uses(HasEvents, HasFeatures, HasLongRequests, HasNodeId, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 57
VERSIONS = range(0, 3)


def handle(request: Asking[Uses], body: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse | None:
    """Change the level of `transaction.version`; None when the response comes later."""
    return run_in_slices(request, _all_or_none(request, body))


def _all_or_none(request: Asking[Uses], body: UpdateFeaturesRequest) -> Steps[UpdateFeaturesResponse]:
    broker = request.broker
    features, before = broker.features, broker.features.transaction_version
    updates = {update.feature: update for update in body.feature_updates}  # The last update of a feature counts.
    # Without a yield: no other request may change a level between check and change.
    for name, update in updates.items():
        level = update.max_version_level
        reason = features.refusal(name, level, update.upgrade_type, broker.node_id)
        if reason is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had an error: "
                f"Invalid update version {level} for feature {name}. {reason}",
            )
    if TRANSACTION_VERSION in updates and not body.validate_only:
        try:
            features.finalize(updates[TRANSACTION_VERSION].max_version_level)
        except StorageError as fault:
            return UpdateFeaturesResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(fault))
        if features.transaction_version != before:
            broker.events.info(
                "feature_finalized",
                feature=TRANSACTION_VERSION,
                from_level=before,
                to_level=features.transaction_version,
            )
    results = []
    for update in body.feature_updates:
        yield ELEMENT_COST
        results.append(UpdatableFeatureResult(update.feature, ErrorCode.NONE, "NONE"))
    return UpdateFeaturesResponse(error_message=None, results=results)
