"""Finalized features (KIP-584). There is only one, `transaction.version` (KIP-890), with levels 0, 1 and 2.

A new data folder starts with the level of the property `transaction.version`. Later the level is in the journal, which survives
restarts, and UpdateFeatures changes it. If the property is set and the folder has another level, the property wins.

The features epoch shows a client which of two responses is newer: every change raises it, and it survives restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import BROKER
from stuntbroker.protocol.features import TRANSACTION_VERSION, UpgradeType

LEVEL_MAX: Final = 2
FIRST_FEATURES_EPOCH: Final = 1


class Features:
    """The finalized level, and its epoch."""

    def __init__(self, journal: Callable[[dict[str, Any]], None], known: Mapping[str, Any]) -> None:
        """Create the features with values of the journal; `known` is empty if the level was never changed."""
        self._journal = journal
        self.transaction_version: int = known.get("transaction_version", BROKER[TRANSACTION_VERSION].default)
        self.epoch: int = known.get("features_epoch", FIRST_FEATURES_EPOCH)
        self.changed: Callable[[int], None] | None = None
        """Called with each new level, before any response uses it."""

    def as_changes(self) -> list[dict[str, Any]]:
        """Return the changes to keep when the journal is rewritten."""
        if self.epoch == FIRST_FEATURES_EPOCH:
            return []
        return [{"transaction_version": self.transaction_version, "features_epoch": self.epoch}]

    def start_at(self, config: BrokerConfig) -> int | None:
        """Finalize the level of `transaction.version` if the property is set; return the previous level if it changed."""
        before, wanted = self.transaction_version, config[TRANSACTION_VERSION]
        if TRANSACTION_VERSION not in config.given or wanted == before:
            return None
        self.finalize(wanted)
        return before

    def finalize(self, level: int) -> None:
        """Write a level to the journal and use it from now on. Raises StorageError; then nothing has changed."""
        if level == self.transaction_version:
            return
        self._journal({"transaction_version": level, "features_epoch": self.epoch + 1})
        self.transaction_version = level
        self.epoch += 1
        if self.changed is not None:
            self.changed(level)

    def refusal(self, feature: str, level: int, upgrade_type: int, node_id: int) -> str | None:
        """Return Kafka's error message if a level cannot be finalized, else None."""
        if upgrade_type not in set(UpgradeType):
            return "The controller does not support the given upgrade type."
        if level < 0:
            return "A feature version cannot be less than 0."
        if feature != TRANSACTION_VERSION:
            return (
                f"Local controller {node_id} does not support this feature."
                if level
                else f"Feature {feature} not found."
            )
        if level > LEVEL_MAX:
            return f"Local controller {node_id} only supports versions 0-{LEVEL_MAX}"
        if level < self.transaction_version and upgrade_type == UpgradeType.UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type "
                "to either safe or unsafe downgrade."
            )
        if level > self.transaction_version and upgrade_type != UpgradeType.UPGRADE:
            return "Can't downgrade to a newer version."
        return None
