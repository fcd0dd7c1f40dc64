"""What the three requests about ACLs have in common: there is no authorizer, and Kafka answers as much."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = "No Authorizer is configured."
UNKNOWN: Final = 0
"""The code of a type, pattern, operation or permission that no request may have."""


def has_unknown(*codes: int) -> bool:
    """Whether one of the codes of an ACL, or of a filter of ACLs, is UNKNOWN: Kafka closes the connection then."""
    return UNKNOWN in codes
