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


def is_verifying(connection: Connection) -> bool:
    """Whether partitions that clients of older versions did not add are refused, as since Kafka 3.6."""
    is_on: bool = connection.broker.config["transaction.partition.verification.enable"]
    return is_on and connection.listener.verifies_partitions


def question_for(connection: Connection, transactional_id: str, *, adds: bool, is_sealed: bool) -> Question:
    """`adds`: the version of the request adds partitions by itself. `is_sealed`: the transaction takes no more records there.

    Older versions are verified, unless the broker is told not to, or shows itself as a Kafka that does not. A transaction
    that was recovered, or that is sealed, is verified all the same: it may be prepared, and take nothing more.
    """
    if adds:
        return Question.ADD
    if is_verifying(connection) or is_sealed or connection.broker.transactions.is_recovered(transactional_id):
        return Question.VERIFY
    return Question.NONE
