"""CreatePartitions, key 37, versions 0-3: adds partitions to topics. v2 flexible."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.assignments import problem_of_assignments
from stuntbroker.broker.configuration.properties import PARTITIONS_MAX
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from stuntbroker.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents, HasLongRequests, HasNodes, HasSyncer, HasTopics

    class Uses(HasEvents, HasLongRequests, HasNodes, HasSyncer, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 37
VERSIONS = range(0, 4)


def handle(request: Asking[Uses], body: CreatePartitionsRequest, version: int) -> CreatePartitionsResponse | None:
    """Add partitions to topics; None when the response comes later."""
    if body.timeout_ms <= 0:
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(topic.name, timed_out, None) for topic in body.topics]
        )
    return run_in_slices(request, _steps(request.broker, body))


def _steps(broker: Uses, body: CreatePartitionsRequest) -> Steps[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in body.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    cost = 0
    for wanted in body.topics:
        yield cost
        name, cost = wanted.name, ELEMENT_COST
        if times[name] > 1:
            error, message = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
        else:
            topic = broker.topics.get(name)
            before = len(topic.partitions) if topic is not None else 0
            error, message = _grow(broker, wanted, body.validate_only)
            if topic is not None and len(topic.partitions) > before:
                cost += cost_of_change(broker.syncer is not None, len(topic.partitions) - before)
        results[name] = CreatePartitionsTopicResult(name, error, message or None)
    return CreatePartitionsResponse(results=list(results.values()))


def _grow(broker: Uses, wanted: CreatePartitionsTopic, validate_only: bool) -> tuple[ErrorCode, str]:
    topic = broker.topics.get(wanted.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""
    present = len(topic.partitions)
    if wanted.count == present:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s)."
    if wanted.count < present:
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.count - present > PARTITIONS_MAX:
        return ErrorCode.UNKNOWN_SERVER_ERROR, ""
    if topic.is_internal:
        # Unlike Kafka: internal topics cannot grow. In Kafka they can, and group and transactional ids change partitions.
        return ErrorCode.INVALID_PARTITIONS, f"{wanted.name} is an internal topic: partitions cannot be added"
    replicas: list[list[int]] = []
    if wanted.assignments is not None:
        if len(wanted.assignments) != wanted.count - present:
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {wanted.count - present} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        replicas = [list(assignment.broker_ids) for assignment in wanted.assignments]
        if problem := problem_of_assignments(replicas, broker.nodes, topic.replication_factor, present):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    if not validate_only:
        try:
            broker.topics.add_partitions(topic, wanted.count, replicas)
        except StorageError as fault:
            return ErrorCode.KAFKA_STORAGE_ERROR, str(fault)
        broker.events.info("partitions_created", topic=wanted.name, partitions=wanted.count)
    return ErrorCode.NONE, ""
