"""ElectLeaders, key 43, versions 0-2: the only broker leads every partition, so that no election is ever needed.

v1 election type, and an error of the whole request. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.slices import SEEN, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from stuntbroker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.services import Services

KEY: Final = 43
VERSIONS = range(0, 3)
ELECTION_TYPES: Final = (0, 1)
"""Preferred and unclean."""


def handle(connection: Connection, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse | None:
    """Answer that no election is needed; None when the response comes later."""
    response: ElectLeadersResponse | None = run_in_slices(connection, _elect(connection.broker, request))
    return response


def _elect(broker: Services, request: ElectLeadersRequest) -> Steps:
    error, message = _request_error(request)
    results: list[ReplicaElectionResult] = []
    if request.topic_partitions is None:
        if error:
            return ElectLeadersResponse(error_code=error)
        # Kafka leaves out the partitions that need no election, and keeps their topics.
        for name in list(broker.topics.by_name):
            yield SEEN
            results.append(ReplicaElectionResult(name))
        return ElectLeadersResponse(replica_election_results=results)
    for topic in request.topic_partitions:
        yield SEEN
        partitions = []
        for index in topic.partitions:
            yield SEEN
            outcome = (error, message) if error else _partition_error(broker, topic.topic, index)
            partitions.append(PartitionResult(index, *outcome))
        results.append(ReplicaElectionResult(topic.topic, partitions))
    return ElectLeadersResponse(error_code=error if results else ErrorCode.NONE, replica_election_results=results)


def _request_error(request: ElectLeadersRequest) -> tuple[ErrorCode, str | None]:
    if request.timeout_ms <= 0:
        return ErrorCode.REQUEST_TIMED_OUT, None
    if request.election_type not in ELECTION_TYPES:
        return ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    return ErrorCode.NONE, None


def _partition_error(broker: Services, topic: str, index: int) -> tuple[ErrorCode, str]:
    if broker.topics.get(topic) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    if broker.topics.log(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
