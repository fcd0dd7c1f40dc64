"""EndTxn, key 26, versions 0-5: commits or aborts the producer's transaction.

v2 may return PRODUCER_FENCED. v3 flexible. v4 may also return TRANSACTION_ABORTABLE. v5 bumps the producer epoch, and returns
the producer id and epoch of the next transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.transactions.coordinator_errors import coordinator_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import EndTxn, Reply
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.transaction_states import TRANSACTION_V0, TRANSACTION_V2
from stuntbroker.protocol.versions import END_TXN_V2_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasTransactions

KEY: Final = 26
VERSIONS: Final = range(0, 6)
FLEXIBLE_FROM: Final = APIS[KEY].flexible_from


def decode(buf: Buffer, version: int, pos: int) -> EndTxnRequest:
    """Decode a request; without tagged fields by hand, for speed. A test compares the result with the generated codec's."""
    if version >= FLEXIBLE_FROM and 1 < (size := buf[pos]) < 0x80:
        stop = pos + size
        try:
            producer_id, epoch, committed, tags = _unpack_end(buf, stop)
        except StructError:
            tags = -1
        if not tags:
            return EndTxnRequest(str(buf[pos + 1 : stop], "utf-8", "replace"), producer_id, epoch, committed)
    return EndTxnRequest.decode(buf, version, pos)


def handle(request: Asking[HasTransactions], body: EndTxnRequest, version: int) -> Response | None:
    """Commit or abort a transaction; None when the response comes later."""
    transactional_id = body.transactional_id
    client_version = TRANSACTION_V2 if version >= END_TXN_V2_FROM else TRANSACTION_V0
    end = EndTxn(body.producer_id, body.producer_epoch, body.committed, client_version)
    transactions = request.broker.transactions
    reply = transactions.try_immediately(transactional_id, end)
    if reply is not None:
        return _response(request, end, transactional_id, version, reply)
    done = partial(_answer, request, end, transactional_id, version)
    transactions.ask(transactional_id, end, request.continuing(done))
    return None


def _answer(request: Asking[HasTransactions], end: EndTxn, transactional_id: str, version: int, reply: Reply) -> None:
    request.reply(_response(request, end, transactional_id, version, reply))


def _response(
    request: Asking[HasTransactions], end: EndTxn, transactional_id: str, version: int, reply: Reply
) -> Response:
    error = reply.error
    if error:
        identity = Identity(end.producer_id, end.producer_epoch)
        error = coordinator_code(request, transactional_id, identity, error, KEY, version)
    if version >= END_TXN_V2_FROM:
        return BumpedEndTxnResponse(error, reply.producer_id, reply.producer_epoch)
    return EndTxnResponse(0, error)


class BumpedEndTxnResponse:
    """A response with the producer id and epoch of the next transaction, from version END_TXN_V2_FROM; encoded by hand for speed.

    A test compares it with the generated codec's.
    """

    def __init__(self, error: int, producer_id: int, producer_epoch: int) -> None:
        self.error = error
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def encode(self, out: bytearray, version: int) -> None:
        """Append the response to `out`: no throttle time, error, producer id and epoch, no tags."""
        out += _pack_bumped(self.error, self.producer_id, self.producer_epoch)


Response = BumpedEndTxnResponse | EndTxnResponse
_pack_bumped: Final = Struct(">4xhqhx").pack
_unpack_end: Final = Struct(">qh?B").unpack_from
