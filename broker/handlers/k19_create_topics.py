"""CreateTopics, key 19, versions 2-7.

v4 -1 partitions or replicas mean the broker's default. v5 flexible, the answer carries what was made. v7 its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.config import PARTITIONS_MAX, ConfigError, check_topic_config
from stuntbroker.broker.config_view import topic_configs
from stuntbroker.broker.slices import MADE, SEEN, Steps, cost_of_change, run_in_slices
from stuntbroker.broker.topics import Topic, TopicNameError, check_name
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.server import Broker

KEY: Final = 19
VERSIONS = range(2, 8)
DETAILS_FROM: Final = 5
DESCRIBED: Final = 20
"""Of a topic whose configuration is in the answer, in the units of a slice."""


class Refused(Exception):
    """A topic cannot be created: the error code and the message of the response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def handle(connection: Connection, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse | None:
    """Create topics; None when the response comes later."""
    names = Counter(topic.name for topic in request.topics)
    default: int = connection.broker.config["num.partitions"]
    counts = (len(topic.assignments) or topic.num_partitions for topic in request.topics)
    if sum(default if count == -1 else max(0, count) for count in counts) > PARTITIONS_MAX:
        return _too_many(names)
    response: CreateTopicsResponse | None = run_in_slices(connection, _each(connection.broker, request, names, version))
    return response


def _each(broker: Broker, request: CreateTopicsRequest, names: Counter[str], version: int) -> Steps:
    results: dict[str, CreatableTopicResult] = {}
    colliding = {name: broker.topics.colliding(name) for name in names}  # With topics there are, not with one another.
    cost = 0
    for wanted in request.topics:
        yield cost
        name, cost = wanted.name, SEEN
        if names[name] > 1:
            results[name] = CreatableTopicResult(
                name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
            )
        elif request.timeout_ms <= 0:
            timed_out = ErrorCode.REQUEST_TIMED_OUT
            results[name] = CreatableTopicResult(name, error_code=timed_out, error_message=None)
        else:
            result = _create_topic(broker, wanted, colliding[name], request.validate_only, version)
            results[name] = result
            changed = not result.error_code and not request.validate_only
            cost = DESCRIBED + (cost_of_change(broker, result.num_partitions) if changed else MADE)
    return CreateTopicsResponse(topics=list(results.values()))


def _too_many(names: Iterable[str]) -> CreateTopicsResponse:
    message = "Excessively large number of partitions per request."
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name, error_code=ErrorCode.POLICY_VIOLATION, error_message=message, configs=[])
            for name in names
        ]
    )


def _create_topic(
    broker: Broker, wanted: CreatableTopic, colliding: str | None, validate_only: bool, version: int
) -> CreatableTopicResult:
    try:
        count, configs = _check(broker, wanted, colliding)
        if validate_only:
            topic = Topic(wanted.name, broker.topics.new_id(), configs)
        else:
            topic = broker.topics.create(wanted.name, count, configs)
            broker.events.info("topic_created", topic=wanted.name, partitions=count, on_demand=False)
    except Refused as refusal:
        return CreatableTopicResult(wanted.name, error_code=refusal.error, error_message=str(refusal), configs=[])
    except StorageError as fault:
        return CreatableTopicResult(
            wanted.name, error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(fault), configs=[]
        )
    result = CreatableTopicResult(wanted.name, topic.id, ErrorCode.NONE, None, 0, count, 1, [])
    if version >= DETAILS_FROM:
        result.configs = [
            CreatableTopicConfigs(config.name, config.value, False, config.source, False)
            for config in topic_configs(broker, topic)
        ]
    return result


def _check(broker: Broker, wanted: CreatableTopic, colliding: str | None) -> tuple[int, dict[str, str]]:
    """(partitions, configuration) of a topic that may be made."""
    try:
        check_name(wanted.name)
    except TopicNameError as fault:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, str(fault)) from None
    if broker.topics.get(wanted.name) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    if colliding:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wanted.name}' collides with existing topic: {colliding}"
        )
    given: dict[str, str | None] = {}
    for config in wanted.configs:
        given[config.name] = config.value
    try:
        configs = check_topic_config(given)
    except ConfigError as fault:
        raise Refused(ErrorCode.INVALID_CONFIG, str(fault)) from None
    return _partitions(broker, wanted), configs


def _partitions(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, so partitions and replication factor must be -1.",
            )
        indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        if any(list(assignment.broker_ids) != [broker.node_id] for assignment in wanted.assignments):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {broker.node_id}")
        return len(indexes)
    if wanted.replication_factor == 0 or wanted.replication_factor < -1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    count = wanted.num_partitions
    if count == -1:
        count = broker.config["num.partitions"]
    if not count > 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if wanted.replication_factor > 1 and not broker.config.accepts_any_replication_factor:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {wanted.replication_factor} time(s): "
            f"The target replication factor of {wanted.replication_factor} "
            "cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return count
