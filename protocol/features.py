"""Names of the features that a broker tells with ApiVersions (KIP-584)."""

from __future__ import annotations

from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""Levels 0, 1 and 2 (KIP-890)."""
KIP_588_FEATURE: Final = "stuntbroker.kip-588"
"""Finalized at level 1 by this broker in the profile kip-588, and only there."""
