"""EndTxn, key 26, versions 0-5: commits or aborts the producer's transaction.

v2 PRODUCER_FENCED may be answered. v3 flexible. v4 also TRANSACTION_ABORTABLE. v5 every end bumps the epoch, and the answer
carries the one to use next (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.fencing import fencing_code
from stuntbroker.coordinator.requests import EndTxn, Reply
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 26
VERSIONS = range(0, 6)
FENCED_FROM: Final = 2
BUMP_FROM: Final = 5


def handle(connection: Connection, request: EndTxnRequest, version: int) -> EndTxnResponse | None:
    if not request.transactional_id:
        return EndTxnResponse(0, ErrorCode.INVALID_REQUEST)

    transactions, transactional_id = connection.broker.transactions, request.transactional_id

    def done(reply: Reply) -> None:
        error = reply.error
        if error:
            error = fencing_code(transactions, transactional_id, error, version >= FENCED_FROM)
        connection.reply(EndTxnResponse(0, error, reply.producer_id, reply.producer_epoch))

    client_version = 2 if version >= BUMP_FROM else 0
    asked = EndTxn(request.producer_id, request.producer_epoch, request.committed, client_version)
    transactions.ask(transactional_id, asked, done)
    return None
