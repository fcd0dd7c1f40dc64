"""Requests to transaction coordinators: InitProducerId, and EndTxn for many transactions at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Pending
from stuntbroker.client.errors import BrokerError, TimedOut, producer_error
from stuntbroker.client.prepared_state import (
    NO_PRODUCER,
    PAIR_FROM,
    PreparedTxnState,
    transaction_version,
)
from stuntbroker.protocol.api_keys import END_TXN, INIT_PRODUCER_ID
from stuntbroker.protocol.errors import RETRIABLE, ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.primitives import INT16_MAX
from stuntbroker.protocol.versions import END_TXN_V2_FROM, TWO_PHASE_FROM

IN_FLIGHT_MAX: Final = 250
"""Maximum number of EndTxn requests in flight."""


class Initialised(NamedTuple):
    """Result of InitProducerId: producer id and epoch, and the prepared transaction that was kept open, if any."""

    pair: PreparedTxnState
    """Producer id and epoch to use from now on."""
    ongoing: PreparedTxnState | None
    """Producer id and epoch of the transaction that was kept open (KIP-939)."""


class End(NamedTuple):
    """A transaction, identified by transactional id, producer id and epoch, and whether to commit or abort it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool

    def __str__(self) -> str:
        how = "commit" if self.commit else "abort"
        return f"{how} of {self.transactional_id!r} {self.producer_id}:{self.producer_epoch}"


class Ended(NamedTuple):
    """Result of EndTxn. `code`: 0, or an error that is not retriable. `pair`: producer id and epoch for the next transaction."""

    end: End
    code: int
    pair: PreparedTxnState
    fence_reason: str | None = None
    """Why the producer was fenced, if the broker says so."""


def end_txn_version(cluster: Cluster, node_id: int) -> int:
    """Return the version of EndTxn to use: below 5 when the cluster's `transaction.version` is below 2."""
    connection = cluster.connection(node_id)
    is_first = transaction_version(connection.transaction_version, connection.versions) < 2
    return connection.version(END_TXN, most=END_TXN_V2_FROM - 1 if is_first else INT16_MAX)


def init_producer(
    cluster: Cluster,
    transactional_id: str,
    timeout_ms: int,
    *,
    two_phase: bool = False,
    keep: bool = False,
    owner: PreparedTxnState = NO_PRODUCER,
) -> Initialised:
    """Send InitProducerId until the response is final. Without `keep`, an open transaction of the id is aborted.

    `owner`: producer id and epoch that the caller must still hold (KIP-360). Raises ProducerFenced if another producer
    does, UnsupportedVersion if two-phase commit is requested and the broker does not support it.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms, *owner, two_phase, keep)
    if two_phase or keep:
        least, most = TWO_PHASE_FROM, INT16_MAX
    else:
        least, most = PAIR_FROM if owner != NO_PRODUCER else 0, TWO_PHASE_FROM - 1

    def attempt() -> Initialised:
        node_id = cluster.coordinators([transactional_id])[transactional_id]
        answer = cluster.ask(node_id, INIT_PRODUCER_ID, request, InitProducerIdResponse, least, most)
        if answer.error_code:
            raise producer_error(f"InitProducerId of {transactional_id!r}", answer.error_code, answer.fence_reason)
        ongoing = PreparedTxnState(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        pair = PreparedTxnState(answer.producer_id, answer.producer_epoch)
        return Initialised(pair, None if ongoing == NO_PRODUCER else ongoing)

    return cluster.retrying(attempt)


def end_all(cluster: Cluster, ends: Sequence[End]) -> list[Ended]:
    """End these transactions concurrently, with requests in flight to all coordinators at the same time.

    Retriable errors are retried until the time-out of an operation is over. Then TimedOut is raised, and any of the
    transactions may or may not have ended. EndTxn may be repeated with the same producer id and epoch.
    """
    ended: dict[int, Ended] = {}

    def attempt() -> list[Ended]:
        failure: BrokerError | None = None
        for index, result in _round(cluster, ends, [index for index in range(len(ends)) if index not in ended]):
            if result.code not in RETRIABLE:
                ended[index] = result
            elif failure is None or result.code != ErrorCode.CONCURRENT_TRANSACTIONS:  # Only that one keeps the routes.
                failure = producer_error(str(result.end), result.code)
        if failure is not None:
            raise failure
        return [ended[index] for index in range(len(ends))]

    try:
        return cluster.retrying(attempt)
    except TimedOut as fault:
        unknown = len(ends) - len(ended)
        raise TimedOut(f"{unknown} of {len(ends)} transactions are not known to have ended: {fault}") from fault


def _round(cluster: Cluster, ends: Sequence[End], left: Sequence[int]) -> Iterator[tuple[int, Ended]]:
    """Send EndTxn once for each index in `left`; yield the index and the result for each response."""
    nodes = cluster.coordinators(list(dict.fromkeys(ends[index].transactional_id for index in left)))
    versions = {node: end_txn_version(cluster, node) for node in set(nodes.values())}
    deadline = cluster.deadline
    for at in range(0, len(left), IN_FLIGHT_MAX):
        sent: list[tuple[int, Pending[EndTxnResponse]]] = []
        for index in left[at : at + IN_FLIGHT_MAX]:
            end = ends[index]
            node = nodes[end.transactional_id]
            request = EndTxnRequest(*end)
            connection = cluster.connection(node)
            sent.append((index, connection.send(END_TXN, versions[node], request, EndTxnResponse, deadline)))
        for index, pending in sent:
            answer = pending.result(deadline)
            pair = PreparedTxnState(answer.producer_id, answer.producer_epoch)
            yield index, Ended(ends[index], answer.error_code, pair, answer.fence_reason)
