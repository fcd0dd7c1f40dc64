"""Older Kafka releases that a listener can imitate: their API versions, and whether they have features.

A client of such a listener sees the highest versions of that release, and so uses the same versions as with that release:
without KIP-890 before 4.0, without PRODUCER_FENCED before 2.7, without topic ids in Fetch before 3.1. The broker handles
a request of such a version as Apache Kafka 4.3 does, with one exception: releases before 3.6 do not verify that a partition was
added to its transaction, and releases before 3.7 do not verify it for offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack
from typing import Final

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.protocol.api_keys import API_VERSIONS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.versions import RELEASE

FEATURES_FROM: Final = "4.0"
"""The first release with the feature transaction.version."""
VERIFIES_FROM: Final = "3.6"
"""The first release that verifies with the coordinator that a partition was added to its transaction (KIP-890, part 1)."""
VERIFIES_OFFSETS_FROM: Final = "3.7"
"""The first release that verifies it for TxnOffsetCommit too (KAFKA-15449)."""

PERSONALITIES: Final[dict[str, dict[int, int]]] = {
    "2.1": {
        0: 7, 1: 10, 2: 4, 3: 7, 8: 6, 9: 5, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2, 17: 1, 18: 2, 19: 3, 20: 3, 21: 1,
        22: 1, 23: 2, 24: 1, 25: 1, 26: 1, 27: 0, 28: 2, 29: 1, 30: 1, 31: 1, 32: 2, 33: 1, 34: 1, 35: 1, 36: 0, 37: 1, 42: 1,
    },
    "2.5": {
        0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5, 16: 3, 17: 1, 18: 3, 19: 5, 20: 4, 21: 1,
        22: 3, 23: 3, 24: 1, 25: 1, 26: 1, 27: 0, 28: 3, 29: 2, 30: 2, 31: 2, 32: 2, 33: 1, 34: 1, 35: 1, 36: 2, 37: 2, 42: 2,
        43: 2, 44: 1, 45: 0, 46: 0, 47: 0,
    },
    "2.8": {
        0: 9, 1: 12, 2: 6, 3: 11, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5, 16: 4, 17: 1, 18: 3, 19: 7, 20: 6, 21: 2,
        22: 4, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 3, 42: 2,
        43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 57: 0, 60: 0, 61: 0,
    },
    "3.3": {
        0: 9, 1: 13, 2: 7, 3: 12, 8: 8, 9: 8, 10: 4, 11: 9, 12: 4, 13: 5, 14: 5, 15: 5, 16: 4, 17: 1, 18: 3, 19: 7, 20: 6, 21: 2,
        22: 4, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3, 42: 2,
        43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 57: 1, 60: 0, 61: 0, 65: 0, 66: 0,
    },
    "3.6": {
        0: 9, 1: 15, 2: 8, 3: 12, 8: 8, 9: 8, 10: 4, 11: 9, 12: 4, 13: 5, 14: 5, 15: 5, 16: 4, 17: 1, 18: 3, 19: 7, 20: 6, 21: 2,
        22: 4, 23: 4, 24: 4, 25: 3, 26: 3, 27: 1, 28: 3, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3, 42: 2,
        43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 57: 1, 60: 0, 61: 0, 65: 0, 66: 0,
    },
    "3.9": {
        0: 11, 1: 17, 2: 9, 3: 12, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 5, 16: 5, 17: 1, 18: 4, 19: 7, 20: 6,
        21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 4, 27: 1, 28: 4, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3,
        42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 57: 1, 60: 1, 61: 0, 65: 0, 66: 1,
    },
    "4.0": {
        0: 12, 1: 17, 2: 10, 3: 13, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 17: 1, 18: 4, 19: 7, 20: 6,
        21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 5, 27: 1, 28: 5, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3,
        42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 55: 2, 57: 2, 60: 2, 61: 0, 65: 0, 66: 1,
        74: 0, 75: 0,
    },
}  # fmt: skip
"""Release -> {API key -> its highest version}. APIs that a release does not have are not served."""


def versions_of(personality: str) -> Mapping[int, tuple[int, int]]:
    """Return {API key: (lowest, highest) version} that a listener serves.

    The lowest version is always this broker's own, even if the release served older ones.
    """
    versions = {key: (served.oldest, served.newest) for key, served in SERVED.items()}
    if personality == RELEASE:
        return versions
    highest = PERSONALITIES[personality]
    return {
        key: (low, min(high, highest[key]))
        for key, (low, high) in versions.items()
        if key in highest and low <= highest[key]
    }


def has_features(personality: str) -> bool:
    """Return whether the release has the feature transaction.version."""
    return _is_since(personality, FEATURES_FROM)


def verifies(personality: str, *, offsets: bool) -> bool:
    """Return whether the release accepts records (or offsets) only if their partition was added to the transaction."""
    return _is_since(personality, VERIFIES_OFFSETS_FROM if offsets else VERIFIES_FROM)


def _is_since(release: str, first: str) -> bool:
    return [int(part) for part in release.split(".")] >= [int(part) for part in first.split(".")]


def unsupported_version(correlation_id: int, personality: str = RELEASE) -> bytes:
    """Return the response frame for an ApiVersions request of a version that is not served."""
    low, high = versions_of(personality)[API_VERSIONS]
    body = pack(">ihihhh", correlation_id, ErrorCode.UNSUPPORTED_VERSION, 1, API_VERSIONS, low, high)
    return pack(">i", len(body)) + body
