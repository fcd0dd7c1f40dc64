"""AlterPartitionReassignments, key 45, versions 0-1: assigns partitions to other nodes.

v1 may forbid a change of the replication factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.assignments import problem_of_replicas
from stuntbroker.broker.cluster.moves import reassign
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from stuntbroker.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.cluster.moves import MovePorts
    from stuntbroker.broker.services import Asking, HasLongRequests

    class Uses(HasLongRequests, MovePorts, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 45
VERSIONS = range(0, 2)


def handle(
    request: Asking[Uses], body: AlterPartitionReassignmentsRequest, version: int
) -> AlterPartitionReassignmentsResponse | None:
    """Reassign partitions to other nodes; return None if the response comes later."""
    return run_in_slices(request, _reassign(request.broker, body))


def _reassign(broker: Uses, body: AlterPartitionReassignmentsRequest) -> Steps[AlterPartitionReassignmentsResponse]:
    if not body.topics:
        return AlterPartitionReassignmentsResponse()
    timed_out = body.timeout_ms <= 0
    topics = []
    for topic in body.topics:
        yield ELEMENT_COST
        partitions = []
        for partition in topic.partitions:
            yield ELEMENT_COST + len(partition.replicas or ())
            if timed_out:
                outcome: tuple[ErrorCode, str | None] = ErrorCode.REQUEST_TIMED_OUT, None
            else:
                outcome = _reassign_partition(broker, topic.name, partition, body.allow_replication_factor_change)
            partitions.append(ReassignablePartitionResponse(partition.partition_index, *outcome))
        topics.append(ReassignableTopicResponse(topic.name, partitions))
    if timed_out:
        return AlterPartitionReassignmentsResponse(0, True, ErrorCode.REQUEST_TIMED_OUT, None, topics)
    return AlterPartitionReassignmentsResponse(0, body.allow_replication_factor_change, ErrorCode.NONE, None, topics)


def _reassign_partition(
    broker: Uses, name: str, partition: ReassignablePartition, may_change_factor: bool
) -> tuple[ErrorCode, str | None]:
    topic, index = broker.topics.get(name), partition.partition_index
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
    if broker.topics.log(name, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    if partition.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    if problem := problem_of_replicas(partition.replicas, broker.nodes):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    before = topic.placements[index].replicas
    if not may_change_factor and len(partition.replicas) != len(before):
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(before)} to {len(partition.replicas)}",
        )
    # Unlike Kafka: refused; Kafka keeps the old replicas until one of the new ones is up.
    if not any(broker.nodes.by_id[node_id].is_up for node_id in partition.replicas):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all of these brokers are stopped: start one of them first"
    if tuple(partition.replicas) != before:
        try:
            reassign(broker, topic, index, partition.replicas)
        except StorageError as fault:
            return ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
    return ErrorCode.NONE, None
