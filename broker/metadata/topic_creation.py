"""Validation of new topics, for CreateTopics and for `serve --topic`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stuntbroker.broker.cluster.assignments import problem_of_assignments
from stuntbroker.broker.configuration.properties import ConfigError, check_topic_config
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic
from stuntbroker.protocol.topic_names import CLUSTER_METADATA, TopicNameError, check_name

if TYPE_CHECKING:
    from stuntbroker.broker.services import HasConfig, HasEvents, HasNodes, HasTopics

    class TopicCreationPorts(HasConfig, HasEvents, HasNodes, HasTopics, Protocol):
        """The parts of the broker that this module uses."""


class TopicRefused(Exception):
    """A topic cannot be created: the error code and the message of the response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def create_missing_topics(broker: TopicCreationPorts, wanted: Iterable[CreatableTopic]) -> None:
    """Create the topics that do not exist yet. Raises ConfigError, StorageError."""
    for topic in wanted:
        if broker.topics.get(topic.name) is None:
            try:
                new = check_new_topic(broker, topic, broker.topics.colliding(topic.name))
            except TopicRefused as refusal:
                raise ConfigError(f"topic {topic.name!r}: {refusal}") from None
            broker.topics.create(topic.name, new.partitions, new.configs)
            broker.events.info("topic_created", topic=topic.name, partitions=new.partitions, on_demand=False)


class NewTopic(NamedTuple):
    """A validated topic that can be created."""

    partitions: int
    configs: dict[str, str]
    replicas: list[list[int]]
    """Node ids of the replicas of each partition; empty if no assignment was given."""


def check_new_topic(broker: TopicCreationPorts, wanted: CreatableTopic, colliding: str | None) -> NewTopic:
    """Validate a topic to create. Raises TopicRefused.

    `colliding`: an existing topic whose name differs from this one only in `.` and `_`, or None.
    """
    if wanted.name == CLUSTER_METADATA:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
    try:
        check_name(wanted.name)
    except TopicNameError as fault:
        raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, str(fault)) from None
    if broker.topics.get(wanted.name) is not None:
        raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    if colliding:
        raise TopicRefused(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wanted.name}' collides with existing topic: {colliding}"
        )
    given: dict[str, str | None] = {}
    for config in wanted.configs:
        given[config.name] = config.value
    try:
        configs = check_topic_config(given)
    except ConfigError as fault:
        raise TopicRefused(ErrorCode.INVALID_CONFIG, str(fault)) from None
    by_index = sorted(wanted.assignments, key=lambda assignment: assignment.partition_index)
    return NewTopic(_partitions(broker, wanted), configs, [list(each.broker_ids) for each in by_index])


def _partitions(broker: TopicCreationPorts, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise TopicRefused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, so partitions and replication factor must be -1.",
            )
        indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise TopicRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        if problem := problem_of_assignments([each.broker_ids for each in wanted.assignments], broker.nodes):
            raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        return len(indexes)
    if wanted.replication_factor == 0 or wanted.replication_factor < -1:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    count = wanted.num_partitions
    if count == -1:
        count = broker.config["num.partitions"]
    if not count > 0:
        raise TopicRefused(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    nodes = len(broker.nodes.ids)
    if wanted.replication_factor > nodes and not broker.config.accepts_any_replication_factor:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {wanted.replication_factor} time(s): "
            f"The target replication factor of {wanted.replication_factor} "
            f"cannot be reached because only {nodes} broker(s) are registered "
            "or some brokers have all their log directories cordoned.",
        )
    return count
