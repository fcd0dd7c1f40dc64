"""Metadata, key 3, versions 0-13: nodes, topics and partitions; creates unknown topics on demand.

v1 null means all topics. v4 AllowAutoTopicCreation. v9 flexible. v10 topic ids. v12 look-up by id. v13 top-level error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.configuration.properties import PARTITIONS_MAX
from stuntbroker.broker.metadata.requested_topics import creates_missing, each_once, named_topics, request_error
from stuntbroker.broker.metadata.topics import Topic
from stuntbroker.broker.metadata.unknown_topics import unknown_or_invalid
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.acls import EVERYTHING_ON, OPERATIONS_NOT_REQUESTED, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.topic_names import CLUSTER_METADATA, INTERNAL, TopicNameError, check_name
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        Asking,
        HasAuthorizer,
        HasClusterId,
        HasConfig,
        HasEvents,
        HasLongRequests,
        HasNodes,
        HasSyncer,
        HasTopics,
    )

    class Uses(
        HasAuthorizer, HasClusterId, HasConfig, HasEvents, HasLongRequests, HasNodes, HasSyncer, HasTopics, Protocol
    ):
        """Parts of the broker that this module uses."""


KEY: Final = 3
VERSIONS = range(0, 14)
OK = ErrorCode.NONE


def handle(request: Asking[Uses], body: MetadataRequest, version: int) -> MetadataResponse | None:
    """Describe the requested topics, or all topics; None when the response comes later."""
    broker = request.broker
    operations = EVERYTHING_ON[Resource.TOPIC] if body.include_topic_authorized_operations else OPERATIONS_NOT_REQUESTED
    topics = named_topics(body, version)
    if topics is None:
        steps = _each_known(request, list(broker.topics), body, operations)
    elif error := request_error(topics, version):
        return MetadataResponse(
            topics=[MetadataResponseTopic(error, topic.name or "", topic.topic_id) for topic in topics],
            error_code=error,
        )
    else:
        steps = _steps(request, each_once(topics), body, operations)
    return run_in_slices(request, steps)


def _each_known(
    request: Asking[Uses], topics: Iterable[Topic], body: MetadataRequest, operations: int
) -> Steps[MetadataResponse]:
    answers = []
    cost = 0
    for topic in topics:
        yield cost
        answers.append(_known(request.broker, topic, operations))
        cost = ELEMENT_COST + len(topic.partitions)
    return _response(request, body, answers)


def _steps(
    request: Asking[Uses], topics: list[MetadataRequestTopic], body: MetadataRequest, operations: int
) -> Steps[MetadataResponse]:
    broker = request.broker
    may_create = creates_missing(broker.config, body) and not _too_many(broker, topics)
    answers = []
    cost = 0
    for wanted in topics:
        yield cost
        before = len(broker.topics.by_name)
        answer = _describe_topic(request, wanted, may_create, operations)
        answers.append(answer)
        created = len(broker.topics.by_name) > before
        cost = (
            cost_of_change(broker.syncer is not None, len(answer.partitions))
            if created
            else ELEMENT_COST * (1 + len(answer.partitions))
        )
    return _response(request, body, answers)


def _too_many(broker: Uses, topics: list[MetadataRequestTopic]) -> bool:
    """Return whether the topics to create have more partitions than one request may create; if so, none is created."""
    each: int = broker.config["num.partitions"]
    if len(topics) * each <= PARTITIONS_MAX:
        return False
    names = (topic.name for topic in topics if topic.topic_id == ZERO_UUID and topic.name is not None)
    wanted = [
        name
        for name in names
        if name not in broker.topics.by_name and unknown_or_invalid(name) != ErrorCode.INVALID_TOPIC_EXCEPTION
    ]
    count = each * len(wanted)
    if count > PARTITIONS_MAX:
        broker.events.warning("topics_not_created", partitions=count, partitions_max=PARTITIONS_MAX, on_demand=True)
    return count > PARTITIONS_MAX


def _response(request: Asking[Uses], body: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    broker = request.broker
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*endpoint) for endpoint in broker.nodes.endpoints(request.connection)],
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes.controller,
        topics=topics,
        cluster_authorized_operations=(
            EVERYTHING_ON[Resource.CLUSTER] if body.include_cluster_authorized_operations else OPERATIONS_NOT_REQUESTED
        ),
    )


def _describe_topic(
    request: Asking[Uses], wanted: MetadataRequestTopic, may_create: bool, operations: int
) -> MetadataResponseTopic:
    broker, name = request.broker, wanted.name
    if wanted.topic_id != ZERO_UUID:
        by_id = broker.topics.by_id(wanted.topic_id)
        if by_id is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        return _known(broker, by_id, operations)
    if name is None:
        return MetadataResponseTopic(ErrorCode.INVALID_REQUEST, None)
    topic = broker.topics.get(name)
    if topic is None:
        creates = may_create and name != CLUSTER_METADATA
        # Checked here too: when the request arrived, the topic may have existed.
        if creates and broker.authorizer.checks_every_request and not _is_creator(request, name):
            return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        created = _create(broker, name) if creates else unknown_or_invalid(name)
        if not isinstance(created, Topic):
            return MetadataResponseTopic(
                created, name, is_internal=name in INTERNAL, topic_authorized_operations=operations
            )
        topic = created
    return _known(broker, topic, operations)


def _is_creator(request: Asking[Uses], name: str) -> bool:
    from stuntbroker.broker.permissions.topic_checks import may_create

    return may_create(request, name)


def _create(broker: Uses, name: str) -> Topic | ErrorCode:
    # Unlike Kafka: the response has the new topic; Kafka returns UNKNOWN_TOPIC_OR_PARTITION, and the client retries.
    try:
        check_name(name)
        if broker.topics.colliding(name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if name in INTERNAL:
            return broker.topics.internal_topic(name)
        topic = broker.topics.create(name, broker.config["num.partitions"], {})
    except TopicNameError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    except StorageError as fault:
        broker.events.error("topic_not_created", topic=name, fault=str(fault))
        return ErrorCode.KAFKA_STORAGE_ERROR
    broker.events.info("topic_created", topic=name, partitions=len(topic.partitions), on_demand=True)
    return topic


def _known(broker: Uses, topic: Topic, operations: int) -> MetadataResponseTopic:
    stopped = broker.nodes.stopped
    partitions = [
        MetadataResponsePartition(
            OK if place.leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
            log.index,
            place.leader,
            log.leader_epoch,
            place.replicas,
            place.in_sync,
            stopped(place),
        )
        for log, place in zip(topic.partitions, topic.placements, strict=True)
    ]
    return MetadataResponseTopic(OK, topic.name, topic.id, topic.is_internal, partitions, operations)
