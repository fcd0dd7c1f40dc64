"""What a transaction's coordinator is asked before records or offsets go into a partition (KIP-890, KIP-939)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection


class Question(Enum):
    """What the coordinator is asked about a partition that the transaction is not open in."""

    ADD = "add"
    """To add it to the transaction."""
    VERIFY = "verify"
    """Whether it was added."""
    NONE = "none"


def is_verifying(connection: Connection, *, offsets: bool = False) -> bool:
    """Whether records, or offsets, are refused where a client of an older version did not add their partition."""
    listener = connection.listener
    is_on: bool = connection.broker.config["transaction.partition.verification.enable"]
    return is_on and (listener.verifies_offsets if offsets else listener.verifies_records)


def question_for(
    connection: Connection, transactional_id: str, *, adds: bool, is_sealed: bool, offsets: bool = False
) -> Question:
    """`adds`: the version of the request adds partitions by itself. `is_sealed`: the transaction takes no more records there.

    Older versions are verified, unless the broker is told not to, or shows itself as a Kafka that does not. A transaction
    that was recovered, or that is sealed, is verified all the same: it may be prepared, and take nothing more.
    """
    if adds:
        return Question.ADD
    if (
        is_verifying(connection, offsets=offsets)
        or is_sealed
        or connection.broker.transactions.is_recovered(transactional_id)
    ):
        return Question.VERIFY
    return Question.NONE
