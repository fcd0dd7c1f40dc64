"""Translates errors of the transaction coordinator to error codes, by API, request version and profile of the listener.

| API | responder | difference by version |
|---|---|---|
| InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn | the coordinator | below PRODUCER_FENCED_FROM, a fenced producer gets INVALID_PRODUCER_EPOCH |
| Produce, TxnOffsetCommit | a leader, after a request to the coordinator | a fenced producer always gets INVALID_PRODUCER_EPOCH; TRANSACTION_ABORTABLE from ABORTABLE_FROM on, CONCURRENT_TRANSACTIONS from CONCURRENT_FROM on |

With profile kip-588, a producer that timed out gets an error of its own, if its InitProducerId version supports it.
"""  # noqa: E501  # A table.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.configuration.properties import KIP_588
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import TRANSACTION_TIMED_OUT
from stuntbroker.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from stuntbroker.protocol.errors import DraftCode, ErrorCode

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasTransactions

PRODUCER_FENCED_FROM: Final = {INIT_PRODUCER_ID: 4, ADD_PARTITIONS_TO_TXN: 2, ADD_OFFSETS_TO_TXN: 2, END_TXN: 2}
"""API key -> the first version whose response may carry PRODUCER_FENCED."""
ABORTABLE_FROM: Final = {PRODUCE: 11, TXN_OFFSET_COMMIT: 4}
"""API key -> the first version whose response may carry TRANSACTION_ABORTABLE; before it, INVALID_TXN_STATE."""
CONCURRENT_FROM: Final = {PRODUCE: 12, TXN_OFFSET_COMMIT: 0}
"""API key -> the first version whose response may carry CONCURRENT_TRANSACTIONS; before it, NOT_ENOUGH_REPLICAS (retriable)."""
INIT_WITH_EPOCH_FROM: Final = 3
"""InitProducerId version of clients 2.5 and 2.6, which can send their producer id and epoch (KIP-360)."""
INIT_LATEST_FROM: Final = 4


def coordinator_code(
    request: Asking[HasTransactions], transactional_id: str, identity: Identity, error: int, key: int, version: int
) -> int:
    """Return the error code for the coordinator's own responses; log one line if it fences a producer."""
    transactions = request.broker.transactions
    knows_fencing = version >= PRODUCER_FENCED_FROM[key]
    has_draft_codes = request.listener.profile == KIP_588
    if error:
        fencing = ErrorCode.PRODUCER_FENCED if error == TRANSACTION_TIMED_OUT else error
        transactions.fences.record_refusal(request, transactional_id, identity, fencing)
    if error == TRANSACTION_TIMED_OUT:
        actor = transactions.actor_of(transactional_id) if has_draft_codes else None
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


def leader_code(error: int, key: int, version: int) -> int:
    """Return the error code for the response of a partition leader, which does not know the reason for fencing."""
    if error in (ErrorCode.PRODUCER_FENCED, TRANSACTION_TIMED_OUT):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM[key]:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version < CONCURRENT_FROM[key]:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error
