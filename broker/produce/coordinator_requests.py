"""Decides which request to the transaction coordinator must precede an append of records or offsets (KIP-890, KIP-939)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.services import AskingPart, HasConfig, HasTransactions

    class Uses(HasConfig, HasTransactions, Protocol):
        """The parts of the broker that this module uses."""


class CoordinatorRequest(Enum):
    """Request to the coordinator for a partition in which the transaction is not open."""

    ADD = "add"
    """Add the partition to the transaction."""
    VERIFY = "verify"
    """Verify that the partition was added."""
    NONE = "none"


def is_verifying(request: AskingPart[HasConfig], *, offsets: bool = False) -> bool:
    """Whether records (or offsets) of an older version are refused if the client did not add their partition."""
    listener = request.listener
    is_on: bool = request.broker.config["transaction.partition.verification.enable"]
    return is_on and (listener.verifies_offsets if offsets else listener.verifies_records)


def required_request(
    request: AskingPart[Uses], transactional_id: str, *, adds: bool, rejects_new_records: bool, offsets: bool = False
) -> CoordinatorRequest:
    """Return the request that must succeed before the append.

    `adds`: the request version adds partitions implicitly. `rejects_new_records`: the transaction accepts no more records
    in the partition. Older versions are verified unless configuration or personality disables it; recovered transactions
    and those that accept no more records always are.
    """
    if adds:
        return CoordinatorRequest.ADD
    if (
        is_verifying(request, offsets=offsets)
        or rejects_new_records
        or request.broker.transactions.is_recovered(transactional_id)
    ):
        return CoordinatorRequest.VERIFY
    return CoordinatorRequest.NONE
