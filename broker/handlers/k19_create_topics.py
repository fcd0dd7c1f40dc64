"""CreateTopics, key 19, versions 2-7.

v4 -1 partitions or replicas mean the broker's default. v5 flexible, the answer carries what was made. v7 its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.broker.config import ConfigError, check_topic_config
from stuntbroker.broker.config_view import DEFAULT_CONFIG, TOPIC_CONFIG, topic_configs
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
PARTITIONS_MAX: Final = 10_000
"""Of one topic made by one request. Unlike Kafka: it has no limit of its own, only a machine's."""


class Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def handle(connection: Connection, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
    broker = connection.broker
    names = [topic.name for topic in request.topics]
    results = []
    for wanted in request.topics:
        if names.count(wanted.name) > 1:
            if not any(one.name == wanted.name for one in results):
                results.append(
                    CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.")
                )
            continue
        results.append(_one(broker, wanted, request.validate_only, version))
    return CreateTopicsResponse(topics=results)


def _one(broker: Broker, wanted: CreatableTopic, validate_only: bool, version: int) -> CreatableTopicResult:
    try:
        count, configs = _check(broker, wanted)
        if validate_only:
            topic = Topic(wanted.name, bytes(16), configs)
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
            CreatableTopicConfigs(one.name, one.value, False, TOPIC_CONFIG if one.set_here else DEFAULT_CONFIG, False)
            for one in topic_configs(broker, topic)
        ]
    return result


def _check(broker: Broker, wanted: CreatableTopic) -> tuple[int, dict[str, str]]:
    """(partitions, configuration) of a topic that may be made."""
    try:
        check_name(wanted.name)
    except TopicNameError as fault:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, str(fault)) from None
    if broker.topics.get(wanted.name) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    colliding = broker.topics.colliding(wanted.name)
    if colliding:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wanted.name}' collides with existing topic: {colliding}"
        )
    count = _partitions(broker, wanted)
    configs: dict[str, str | None] = {}
    for config in wanted.configs:
        configs[config.name] = config.value
    try:
        return count, check_topic_config(configs)
    except ConfigError as fault:
        raise Refused(ErrorCode.INVALID_CONFIG, str(fault)) from None


def _partitions(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, so partitions and replication factor must be -1.",
            )
        indexes = sorted(one.partition_index for one in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        if any(list(one.broker_ids) != [broker.node_id] for one in wanted.assignments):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {broker.node_id}")
        return len(indexes)
    count = wanted.num_partitions
    if count == -1:
        count = broker.config["num.partitions"]
    if not 0 < count:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if count > PARTITIONS_MAX:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions are more than {PARTITIONS_MAX}")
    if wanted.replication_factor == 0 or wanted.replication_factor < -1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if wanted.replication_factor > 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {wanted.replication_factor} time(s): "
            "The target replication factor of " f"{wanted.replication_factor} cannot be reached because only 1 broker(s) are registered.",
        )
    return count
