"""ListTransactions, key 66, versions 0-2: transactional ids by state and producer id. v1 by duration. v2 by pattern."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.patterns import Pattern, PatternError
from stuntbroker.broker.requests.slices import IDS_COST, IDS_PER_STEP, Steps, run_in_slices
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.list_transactions_response import ListTransactionsResponse
from stuntbroker.protocol.primitives import write_compact_string, write_uvarint
from stuntbroker.protocol.topic_names import TXN_STATE

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        Asking,
        HasClock,
        HasEvents,
        HasLongRequests,
        HasNodes,
        HasTopics,
        HasTransactions,
    )
    from stuntbroker.broker.transactions.registry import Transactions

    class Uses(HasClock, HasEvents, HasLongRequests, HasNodes, HasTopics, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 66
VERSIONS = range(0, 3)
NAMES: Final = {phase.kafka_name: phase for phase in Phase}
NEVER_SHOWN: Final = frozenset({"Dead", "PrepareEpochFence"})
"""States that Kafka knows, but in which no transactional id is ever seen."""
DECODED_IDS_COST: Final = 250
"""Cost of IDS_PER_STEP ids when the whole state of each must be decoded."""
_pack_q = Struct(">q").pack


def _phase_and_tags(phase: Phase) -> bytes:
    out = bytearray()
    write_compact_string(out, phase.kafka_name)
    return bytes(out) + b"\x00"


PHASE_AND_TAGS: Final = {phase: _phase_and_tags(phase) for phase in Phase}
"""Encoded end of an entry: its state, without tagged fields."""


class _Listing:
    """A response whose entries are encoded one by one: encoding a million at once would block the event loop for a second."""

    def __init__(self, unknown_states: list[str]) -> None:
        self.unknown_states = unknown_states
        self.count = 0
        self.entries = bytearray()

    def add(self, transactional_id: str, producer_id: int, phase: Phase) -> None:
        write_compact_string(self.entries, transactional_id)
        self.entries += _pack_q(producer_id) + PHASE_AND_TAGS[phase]
        self.count += 1

    def encode(self, out: bytearray, version: int) -> None:
        empty = bytearray()
        ListTransactionsResponse(unknown_state_filters=self.unknown_states).encode(empty, version)
        out += empty[:-2]  # Without the number of entries, and the tagged fields after them.
        write_uvarint(out, self.count + 1)
        out += self.entries
        out.append(0)


def handle(request: Asking[Uses], body: ListTransactionsRequest, version: int) -> Any:
    """List transactions by state, producer, age and pattern; None when the response comes later."""
    pattern = None
    if body.transactional_id_pattern:
        try:
            pattern = Pattern(body.transactional_id_pattern)
        except PatternError as fault:
            request.broker.events.info("pattern_refused", client=request.peer, reason=str(fault))
            return ListTransactionsResponse(0, ErrorCode.INVALID_REGULAR_EXPRESSION)
    return run_in_slices(request, _steps(request, body, pattern))


def _coordinated(request: Asking[Uses], ids: list[str]) -> list[str]:
    """Return the ids that the node coordinates."""
    broker, node_id = request.broker, request.listener.node_id
    topic = broker.topics.get(TXN_STATE) if broker.nodes.are_many else None
    return ids if topic is None else [each for each in ids if coordinator_of(topic, each).leader == node_id]


def _steps(request: Asking[Uses], body: ListTransactionsRequest, pattern: Pattern | None) -> Steps[_Listing]:
    transactions = request.broker.transactions
    listing = _Listing([name for name in body.state_filters if name not in NAMES and name not in NEVER_SHOWN])
    phases = {NAMES[name] for name in body.state_filters if name in NAMES} if body.state_filters else set(Phase)
    producer_ids = set(body.producer_id_filters)
    now_ms = request.broker.clock.now_ms()
    cost = IDS_COST if body.duration_filter < 0 else DECODED_IDS_COST
    ids = _coordinated(request, transactions.ids())
    for start in range(0, len(ids), IDS_PER_STEP):
        if start:
            yield cost
        for transactional_id in ids[start : start + IDS_PER_STEP]:
            summary = transactions.summary(transactional_id)
            if summary is None or summary.phase not in phases:
                continue
            if producer_ids and summary.producer_id not in producer_ids:
                continue
            if body.duration_filter >= 0 and not _is_longer(
                transactions, transactional_id, now_ms - body.duration_filter
            ):
                continue
            if pattern is None or pattern.matches(transactional_id):
                listing.add(transactional_id, summary.producer_id, summary.phase)
    return listing


def _is_longer(transactions: Transactions, transactional_id: str, began_before_ms: int) -> bool:
    """Return whether the transaction began before a wall-clock time; one in state Empty began at -1, as in Kafka."""
    txn = transactions.state_of(transactional_id)
    return txn is not None and txn.started_at_ms < began_before_ms
