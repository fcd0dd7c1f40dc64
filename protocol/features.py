"""Names of the features that a broker reports in ApiVersions (KIP-584)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""Levels 0, 1 and 2 (KIP-890)."""
KIP_588_FEATURE: Final = "stuntbroker.kip-588"
"""Feature that this broker finalizes at level 1, only for listeners with profile kip-588."""


class UpgradeType(IntEnum):
    """What UpdateFeatures may do with the level of a feature."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """A downgrade that may lose metadata."""
