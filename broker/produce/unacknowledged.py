"""Produce requests with acks=0, which have no response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stuntbroker.broker.requests.apis import NO_RESPONSE

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import Requester


def fail_unacknowledged(request: Requester) -> Any:
    """Close the connection, as there is no other way to report a failure; return NO_RESPONSE."""
    request.fail("unacknowledged_produce_failed")
    return NO_RESPONSE
