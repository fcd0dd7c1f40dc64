"""WriteTxnMarkers, key 27, versions 1-2: ends a producer's transaction in partitions, without asking its coordinator.

In Kafka, brokers send it to each other, and an administrator sends it to abort a hanging transaction. v2 transaction version
(KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import IDS_COST, IDS_PER_STEP, Steps, run_in_slices
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.broker.transactions.txn_markers import end_in_partition
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from stuntbroker.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.marker import new_marker

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasClock, HasGroups, HasLongRequests, HasTopics, HasTransactions

    class Uses(HasClock, HasGroups, HasLongRequests, HasTopics, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 27
MARKER_COST: Final = 10
"""Cost of a marker, which is a write to a file, in slice units."""
VERSIONS = range(1, 3)


def handle(request: Asking[Uses], body: WriteTxnMarkersRequest, version: int) -> WriteTxnMarkersResponse | None:
    """Write the markers of a request; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: WriteTxnMarkersRequest) -> Steps[WriteTxnMarkersResponse]:
    results: dict[int, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
    refused: dict[int, int] = {}
    for marker in body.markers:
        has_ended = False
        topics = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            partitions = topics.setdefault(topic.name, [])
            for index in topic.partition_indexes:
                error = _write(request, marker, topic.name, index)
                partitions.append(WritableTxnMarkerPartitionResult(index, error))
                has_ended |= not error
                if error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    refused[marker.producer_id] = marker.producer_epoch
                yield MARKER_COST
        if has_ended:
            request.broker.transactions.fence_by_admin(request, marker.producer_id)
    for producer_id, producer_epoch in refused.items():
        yield from _note_refusal(request, Identity(producer_id, producer_epoch))
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                producer_id,
                [WritableTxnMarkerTopicResult(name, partition_results) for name, partition_results in topics.items()],
            )
            for producer_id, topics in results.items()
        ]
    )


def _note_refusal(request: Asking[Uses], identity: Identity) -> Steps[None]:
    """Record that a marker of a producer was refused because a former coordinator sent it."""
    transactions = request.broker.transactions
    for number, transactional_id in enumerate(transactions.ids()):
        if not number % IDS_PER_STEP:
            yield IDS_COST
        known = transactions.summary(transactional_id)
        if known is not None and known.producer_id == identity.producer_id:
            transactions.fences.record_refusal(
                request, transactional_id, identity, ErrorCode.TRANSACTION_COORDINATOR_FENCED
            )


def _write(request: Asking[Uses], marker: WritableTxnMarker, name: str, index: int) -> ErrorCode:
    broker = request.broker
    topic, log = broker.topics.get(name), broker.topics.log(name, index)
    if topic is None or log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.placements[index].leader != request.listener.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if marker.producer_id == -1 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    try:
        new = new_marker(
            marker.transaction_result,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
            broker.clock.now_ms(),
        )
        return end_in_partition(broker, log, new)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
