"""EndTxn, key 26, versions 0-5: commits or aborts the producer's transaction.

v2 PRODUCER_FENCED may be answered. v3 flexible. v4 also TRANSACTION_ABORTABLE. v5 every end bumps the epoch, and the answer
carries the one to use next (KIP-890).
"""

from __future__ import annotations

from struct import Struct
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
        error, producer_id, producer_epoch = reply[:3]
        if error:
            error = fencing_code(transactions, transactional_id, error, version >= FENCED_FROM)
        if version >= BUMP_FROM:
            connection.reply_whole(answer_v5(connection.correlation, error, producer_id, producer_epoch))
        else:
            connection.reply(EndTxnResponse(0, error))

    client_version = 2 if version >= BUMP_FROM else 0
    asked = _new(EndTxn, (request.producer_id, request.producer_epoch, request.committed, client_version))
    transactions.ask(transactional_id, asked, done)
    return None


def answer_v5(correlation: int, error: int, producer_id: int, producer_epoch: int) -> bytearray:
    """The whole answer from the frame's length on, in one piece: every transaction ends with one.

    Length, correlation id, no tags; no throttle time, error, producer id and epoch, no tags. A test holds it against the
    generated codec.
    """
    return bytearray(_pack_answer_v5(22, correlation, error, producer_id, producer_epoch))


_pack_answer_v5 = Struct(">iix4xhqhx").pack
_new = tuple.__new__
