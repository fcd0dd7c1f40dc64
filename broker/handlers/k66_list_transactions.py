"""ListTransactions, key 66, versions 0-2: transactional ids by state and producer id. v1 by duration. v2 by pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.patterns import Pattern
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

KEY: Final = 66
VERSIONS = range(0, 3)
NAMES: Final = {phase.kafka_name: phase for phase in Phase}
NEVER_SHOWN: Final = frozenset({"Dead", "PrepareEpochFence"})
"""States that Kafka knows and no id is ever seen in."""


def handle(connection: Connection, request: ListTransactionsRequest, version: int) -> ListTransactionsResponse:
    broker = connection.broker
    unknown = [name for name in request.state_filters if name not in NAMES and name not in NEVER_SHOWN]
    phases = {NAMES[name] for name in request.state_filters if name in NAMES}
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = Pattern(request.transactional_id_pattern)
        except re.error:
            return ListTransactionsResponse(0, ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = broker.clock.now_ms()
    found = []
    for transactional_id, actor in broker.transactions.actors.items():
        txn = actor.txn
        if request.state_filters and txn.phase not in phases:
            continue
        if request.producer_id_filters and txn.producer_id not in request.producer_id_filters:
            continue
        # An id that is Empty has no start, counts from -1 and passes every duration, as in Kafka.
        if request.duration_filter >= 0 and now_ms - txn.started_at_ms <= request.duration_filter:
            continue
        if pattern is not None and not pattern.matches(transactional_id):
            continue
        found.append(TransactionState(transactional_id, txn.producer_id, txn.phase.kafka_name))
    return ListTransactionsResponse(0, ErrorCode.NONE, unknown, found)
