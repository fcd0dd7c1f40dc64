"""DescribeTransactions, key 65, version 0: the transaction state of transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.coordinator.state import partitions_by_topic
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTransactions

    class Uses(HasLongRequests, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 65
VERSIONS = range(0, 1)
PARTITIONS_PER_UNIT: Final = 10
"""Described partitions that cost one slice unit."""
REPEATED_PARTITIONS_MAX: Final = 100
"""Maximum number of partitions of a transaction that is described as often as it is requested."""


def handle(
    request: Asking[Uses], body: DescribeTransactionsRequest, version: int
) -> DescribeTransactionsResponse | None:
    """Describe transactions by their ids; None when the response comes later."""
    return run_in_slices(request, _steps(request.broker, body.transactional_ids))


def _steps(broker: Uses, transactional_ids: Sequence[str]) -> Steps[DescribeTransactionsResponse]:
    states = []
    large: set[str] = set()
    for transactional_id in transactional_ids:
        # Unlike Kafka: a large transaction that is requested twice is described once; the response could have gigabytes.
        if transactional_id in large:
            continue
        state = _describe_transaction(broker, transactional_id)
        states.append(state)
        partitions = sum(len(topic.partitions) for topic in state.topics)
        if partitions > REPEATED_PARTITIONS_MAX:
            large.add(transactional_id)
        yield ELEMENT_COST + partitions // PARTITIONS_PER_UNIT
    return DescribeTransactionsResponse(transaction_states=states)


def _describe_transaction(broker: Uses, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    txn = broker.transactions.state_of(transactional_id)
    if txn is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        txn.phase.kafka_name,
        txn.timeout_ms,
        txn.started_at_ms,
        txn.producer_id,
        txn.producer_epoch,
        [TopicData(name, indexes) for name, indexes in partitions_by_topic(txn.partitions).items()],
    )
