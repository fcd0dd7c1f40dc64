"""InitProducerId, key 22, versions 0-5: a producer id and epoch, fencing who had the transactional id before.

v2 flexible. v3 the producer may name its own id and epoch (KIP-360). v4 PRODUCER_FENCED may be answered. v5 also
TRANSACTION_ABORTABLE. v6 (KIP-939) is not served yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.coordinator.requests import InitProducerId, Reply
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 22
VERSIONS = range(0, 6)
FENCED_FROM: Final = 4


def handle(connection: Connection, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse | None:
    broker = connection.broker
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _error(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(0, ErrorCode.NONE, broker.transactions.producer_ids.take(), 0)
    if not request.transactional_id:
        return _error(ErrorCode.INVALID_REQUEST)
    timeout_ms = request.transaction_timeout_ms
    if not 0 < timeout_ms <= broker.config["transaction.max.timeout.ms"]:
        return _error(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def done(reply: Reply) -> None:
        if reply.error:
            fenced = reply.error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM
            connection.reply(_error(ErrorCode.INVALID_PRODUCER_EPOCH if fenced else reply.error))
        else:
            connection.reply(InitProducerIdResponse(0, reply.error, reply.producer_id, reply.producer_epoch))

    asked = InitProducerId(timeout_ms, request.producer_id, request.producer_epoch)
    broker.transactions.ask(request.transactional_id, asked, done)
    return None


def _error(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, -1, -1)
