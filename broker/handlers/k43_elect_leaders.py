"""ElectLeaders, key 43, versions 0-2: the preferred replica, or any that is up, becomes the leader of a partition.

v1 election type, and an error of the whole request. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.moves import elect_any, elect_preferred
from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from stuntbroker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.cluster.moves import MovePorts
    from stuntbroker.broker.services import Asking, HasLongRequests

    class Uses(HasLongRequests, MovePorts, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 43
VERSIONS = range(0, 3)
ELECTION_TYPES: Final = (0, 1)
"""Preferred and unclean."""
UNCLEAN: Final = 1
NOT_PREFERRED: Final = "The preferred leader was not available."
NO_ELIGIBLE_LEADER: Final = "Eligible topic partition leaders are not available."


def handle(request: Asking[Uses], body: ElectLeadersRequest, version: int) -> ElectLeadersResponse | None:
    """Elect the preferred or any replica as leader of partitions; return None if the response comes later."""
    return run_in_slices(request, _elect(request.broker, body))


def _elect(broker: Uses, body: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    error, message = _request_error(body)
    results: list[ReplicaElectionResult] = []
    if body.topic_partitions is None:
        if error:
            return ElectLeadersResponse(error_code=error)
        # Kafka leaves out the partitions that need no election, and keeps their topics.
        for each in list(broker.topics):
            yield ELEMENT_COST
            outcomes = [
                PartitionResult(index, *_partition_error(broker, body.election_type, each.name, index))
                for index in range(len(each.partitions) if broker.nodes.are_many else 0)
            ]
            needed = [result for result in outcomes if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(each.name, needed))
        return ElectLeadersResponse(replica_election_results=results)
    for topic in body.topic_partitions:
        yield ELEMENT_COST
        partitions = []
        for index in topic.partitions:
            yield ELEMENT_COST
            outcome = (error, message) if error else _partition_error(broker, body.election_type, topic.topic, index)
            partitions.append(PartitionResult(index, *outcome))
        results.append(ReplicaElectionResult(topic.topic, partitions))
    return ElectLeadersResponse(error_code=error if results else ErrorCode.NONE, replica_election_results=results)


def _request_error(body: ElectLeadersRequest) -> tuple[ErrorCode, str | None]:
    if body.timeout_ms <= 0:
        return ErrorCode.REQUEST_TIMED_OUT, None
    if body.election_type not in ELECTION_TYPES:
        return ErrorCode.INVALID_REQUEST, f"Unknown election type {body.election_type}"
    return ErrorCode.NONE, None


def _partition_error(broker: Uses, election_type: int, name: str, index: int) -> tuple[ErrorCode, str | None]:
    topic = broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if broker.topics.log(name, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    placement = topic.placements[index]
    if placement.leader == placement.preferred_leader or (election_type == UNCLEAN and placement.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    try:
        if election_type == UNCLEAN:
            elected, error, message = (
                elect_any(broker, topic, index),
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                NO_ELIGIBLE_LEADER,
            )
        else:
            elected = elect_preferred(broker, topic, index)
            error, message = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, NOT_PREFERRED
    except StorageError as fault:
        return ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
    return (ErrorCode.NONE, None) if elected else (error, message)
