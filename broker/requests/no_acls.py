"""Common parts of the three ACL requests, which are answered like those of a Kafka broker without an authorizer."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = "No Authorizer is configured."
UNKNOWN: Final = 0
"""Code of an unknown resource type, pattern type, operation or permission; invalid in requests."""


def has_unknown(*codes: int) -> bool:
    """Return whether a code of an ACL or an ACL filter is UNKNOWN; Kafka closes the connection then."""
    return UNKNOWN in codes
