"""What a transaction's coordinator is asked before records or offsets go into a partition (KIP-890, KIP-939)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stuntbroker.broker.services import Services


class Question(Enum):
    """What the coordinator is asked about a partition that the transaction is not open in."""

    ADD = "add"
    """To add it to the transaction."""
    VERIFY = "verify"
    """Whether it was added."""
    NONE = "none"


def question_for(broker: Services, transactional_id: str, *, adds: bool, is_sealed: bool) -> Question:
    """`adds`: the version of the request adds partitions by itself. `is_sealed`: the transaction takes no more records there.

    Older versions are verified, unless the broker is told not to. A transaction that was recovered, or that is sealed, is
    verified all the same: it may be prepared, and take nothing more.
    """
    if adds:
        return Question.ADD
    is_verified = broker.config["transaction.partition.verification.enable"]
    if is_verified or is_sealed or broker.transactions.is_recovered(transactional_id):
        return Question.VERIFY
    return Question.NONE
