"""AlterPartitionReassignments, key 45, versions 0-1: the only broker is the only replica that a partition can have.

v1 allows or forbids another number of replicas, which one broker cannot give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.slices import SEEN, Steps, run_in_slices
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

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.services import Services

KEY: Final = 45
VERSIONS = range(0, 2)


def handle(
    connection: Connection, request: AlterPartitionReassignmentsRequest, version: int
) -> AlterPartitionReassignmentsResponse | None:
    """Accept this broker as the only replica; None when the response comes later."""
    response: AlterPartitionReassignmentsResponse | None = run_in_slices(
        connection, _reassign(connection.broker, request)
    )
    return response


def _reassign(broker: Services, request: AlterPartitionReassignmentsRequest) -> Steps:
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    timed_out = request.timeout_ms <= 0
    topics = []
    for topic in request.topics:
        yield SEEN
        partitions = []
        for partition in topic.partitions:
            yield SEEN + len(partition.replicas or ())
            if timed_out:
                outcome: tuple[ErrorCode, str | None] = ErrorCode.REQUEST_TIMED_OUT, None
            else:
                outcome = _partition_error(broker, topic.name, partition)
            partitions.append(ReassignablePartitionResponse(partition.partition_index, *outcome))
        topics.append(ReassignableTopicResponse(topic.name, partitions))
    if timed_out:
        return AlterPartitionReassignmentsResponse(0, True, ErrorCode.REQUEST_TIMED_OUT, None, topics)
    return AlterPartitionReassignmentsResponse(0, request.allow_replication_factor_change, ErrorCode.NONE, None, topics)


def _partition_error(broker: Services, topic: str, partition: ReassignablePartition) -> tuple[ErrorCode, str | None]:
    if broker.topics.get(topic) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}."
    if broker.topics.log(topic, partition.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{partition.partition_index}."
    if partition.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    problem = _problem_of_replicas(partition.replicas, broker.node_id)
    if problem is None:
        return ErrorCode.NONE, None
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"


def _problem_of_replicas(replicas: Sequence[int], node_id: int) -> str | None:
    """Kafka checks the replicas in ascending order and reports the first problem."""
    if not replicas:
        return "an empty replica list."
    previous = None
    for replica in sorted(replicas):
        if replica != node_id:
            return f"broker {replica}, but no such broker is registered."
        if replica == previous:
            return f"the broker {replica} more than once."
        previous = replica
    return None
