"""EndTxn, key 26, versions 0-5: commits or aborts the producer's transaction.

v2 may return PRODUCER_FENCED. v3 flexible. v4 may also return TRANSACTION_ABORTABLE. v5 bumps the producer epoch, and returns
the producer id and epoch of the next transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.transactions.coordinator_errors import coordinator_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import EndTxn, Reply
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.transaction_states import TRANSACTION_V0, TRANSACTION_V2
from stuntbroker.protocol.versions import END_TXN_V2_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasTransactions

KEY: Final = 26
VERSIONS: Final = range(0, 6)


def handle(request: Asking[HasTransactions], body: EndTxnRequest, version: int) -> EndTxnResponse | None:
    """Commit or abort a transaction; None when the response comes later."""
    transactional_id = body.transactional_id
    client_version = TRANSACTION_V2 if version >= END_TXN_V2_FROM else TRANSACTION_V0
    end = EndTxn(body.producer_id, body.producer_epoch, body.committed, client_version)
    transactions = request.broker.transactions
    reply = transactions.try_immediately(transactional_id, end)
    if reply is not None:
        return _response(request, end, transactional_id, version, reply)
    transactions.ask(request, transactional_id, end, partial(_answer, request, end, transactional_id, version))
    return None


def _answer(request: Asking[HasTransactions], end: EndTxn, transactional_id: str, version: int, reply: Reply) -> None:
    request.reply(_response(request, end, transactional_id, version, reply))


def _response(
    request: Asking[HasTransactions], end: EndTxn, transactional_id: str, version: int, reply: Reply
) -> EndTxnResponse:
    error = reply.error
    if error:
        identity = Identity(end.producer_id, end.producer_epoch)
        error = coordinator_code(request, transactional_id, identity, error, KEY, version)
    if version >= END_TXN_V2_FROM:
        return EndTxnResponse(0, error, reply.producer_id, reply.producer_epoch)
    return EndTxnResponse(0, error)
