"""The version of an API that client and broker both have, and what a client says of itself in ApiVersions (KIP-511)."""

from __future__ import annotations

from typing import Final

from stuntbroker.client.errors import UnsupportedVersion
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.software import NAME, VERSION

API_VERSIONS_FIRST: Final = 3
"""ApiVersions version tried first. An older broker responds at version 0, with an error and its own versions."""
SOFTWARE: Final = (NAME, VERSION)
"""Name and version of the client in ApiVersions."""


def chosen_version(address: Address, versions: dict[int, tuple[int, int]], key: int, least: int, most: int) -> int:
    """Return the highest version of an API that this client and the broker have. Raises UnsupportedVersion."""
    api = APIS[key]
    low, high = versions.get(key, (0, -1))
    most = min(api.version_max, most)
    version = min(high, most)
    if version < max(low, api.version_min, least):
        has = f"has {api.name} {low}-{high}" if high >= 0 else f"has no {api.name}"
        needed = f"{max(api.version_min, least)}-{most}"
        raise UnsupportedVersion(f"the broker at {address} {has}, needed is version {needed}")
    return version
