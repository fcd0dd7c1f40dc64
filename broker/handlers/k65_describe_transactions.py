"""DescribeTransactions, key 65, version 0: all that is known of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.server import Broker

KEY: Final = 65
VERSIONS = range(0, 1)


def handle(
    connection: Connection, request: DescribeTransactionsRequest, version: int
) -> DescribeTransactionsResponse:
    broker = connection.broker
    return DescribeTransactionsResponse(
        transaction_states=[_one(broker, transactional_id) for transactional_id in request.transactional_ids]
    )


def _one(broker: Broker, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    actor = broker.transactions.find(transactional_id)
    if actor is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    txn = actor.txn
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        txn.phase.kafka_name,
        txn.timeout_ms,
        txn.started_at_ms,
        txn.producer_id,
        txn.producer_epoch,
        [TopicData(name, indexes) for name, indexes in topics.items()],
    )
