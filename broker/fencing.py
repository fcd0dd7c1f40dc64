"""The error code that tells a producer that it is fenced, or was timed out: by the version of its request and the profile."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.config import KIP_588
from stuntbroker.broker.fences import FENCED
from stuntbroker.coordinator.requests import TRANSACTION_TIMED_OUT
from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

INIT_WITH_EPOCH_FROM: Final = 3
"""InitProducerId of a client that can name its id and epoch (KIP-360): 2.5 and 2.6."""
INIT_LATEST_FROM: Final = 4


class DraftCode(IntEnum):
    """Numbers of profile kip-588, as the draft has them; in Kafka 90 is PRODUCER_FENCED and 91 something else."""

    TRANSACTION_TIMED_OUT = 90
    PRODUCER_FENCED = 91


def fencing_code(connection: Connection, transactional_id: str, error: int, knows_fencing: bool) -> int:
    """`error` of the coordinator as a request may carry it; `knows_fencing`: its version has PRODUCER_FENCED."""
    transactions = connection.broker.transactions
    has_draft_codes = connection.listener.profile == KIP_588
    if error in FENCED:
        transactions.fences.log_refusal(connection, transactional_id)
    if error == TRANSACTION_TIMED_OUT:
        actor = transactions.find(transactional_id) if has_draft_codes else None
        init_version = actor.txn.init_version if actor is not None else -1
        if init_version >= INIT_LATEST_FROM and knows_fencing:
            return DraftCode.TRANSACTION_TIMED_OUT
        if init_version >= INIT_WITH_EPOCH_FROM:
            return ErrorCode.UNKNOWN_PRODUCER_ID
        error = ErrorCode.PRODUCER_FENCED
    if error == ErrorCode.PRODUCER_FENCED:
        if not knows_fencing:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if has_draft_codes:
            return DraftCode.PRODUCER_FENCED
    return error
