"""Permission checks of requests about topics that differ from the usual ones in `gate.py`."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.permissions.authorizer import operations_of
from stuntbroker.broker.permissions.checks import MESSAGES, change_response, may, may_on_cluster, topic_name
from stuntbroker.broker.produce.produce_checks import has_transactional
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.partial_requests import merged
from stuntbroker.broker.requests.plain_messages import whole_answer
from stuntbroker.protocol.acls import Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreateTopicsRequest
from stuntbroker.protocol.messages.create_topics_response import CreatableTopicResult
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from stuntbroker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from stuntbroker.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponseTopic
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.metadata_response import MetadataResponseTopic
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.produce_codec import TOPIC_IDS_FROM, ProduceFields, TopicBatches

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection
    from stuntbroker.broker.requests.router import Handler

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
AUTHORIZATION_FAILED: Final = "Authorization failed."
NO_CLUSTER_OPERATIONS: Final = 0
CONFIGS_FROM: Final = 5
"""First version of CreateTopics whose response has the configuration of the topic."""
NOT_SHOWN: Final = -1
"""Number of partitions, and replication factor, of a topic whose configuration the client may not see."""


def may_describe(connection: Connection, name: str) -> bool:
    """Return whether the client may know of a topic."""
    return connection.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name)


# --- Produce


def check_produce(handle: Handler, connection: Connection, fields: ProduceFields, version: int) -> Any:
    """Refuse the batches for topics to which the client may not write, and transactions that are not the client's."""
    transactional_id, acks, topic_batches = fields
    if has_transactional(topic_batches) and (
        transactional_id is None or not may(connection, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    ):
        refused = _refused(topic_batches, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return ProduceResponse(refused) if acks else _closed(connection)
    names = [_name_to_write(connection, name, topic_id, version) for name, topic_id, _ in topic_batches]
    denied = {
        name
        for name in dict.fromkeys(names)
        if name is not None and not may(connection, Operation.WRITE, Resource.TOPIC, name)
    }
    if not denied:
        return handle(connection, fields, version)
    named = list(zip(names, topic_batches, strict=True))
    own = [batches for name, batches in named if name not in denied]
    refused = _refused([batches for name, batches in named if name in denied], DENIED)
    if not own:
        return ProduceResponse(refused) if acks else _closed(connection)

    def with_refused(answer: Any) -> Any:
        if not acks:
            return _closed(connection)
        response = whole_answer(connection.route.key, version, connection.route.flexible_response, answer)
        if response is not NO_RESPONSE:
            response.responses = merged(response.responses, refused)
        return response

    return intercept_response(handle, connection, (transactional_id, acks, own), version, with_refused)


def _name_to_write(connection: Connection, name: str, topic_id: bytes, version: int) -> str | None:
    """Return the name of the topic of a Produce request; None if its id is unknown."""
    topic = connection.broker.topics.find(name, topic_id, version >= TOPIC_IDS_FROM)
    return topic.name if topic is not None else name or None


def _refused(topic_batches: TopicBatches, error: ErrorCode) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(name, topic_id, [PartitionProduceResponse(index, error, -1) for index in parts])
        for name, topic_id, parts in topic_batches
    ]


def _closed(connection: Connection) -> Any:
    """Close the connection, as there is no other way to report the failure of a request with acks=0."""
    connection.fail("unacknowledged_produce_failed")
    return NO_RESPONSE


# --- Metadata


def check_metadata(handle: Handler, connection: Connection, request: MetadataRequest, version: int) -> Any:
    """Hide the topics of which the client may not know; refuse to create those that it may not create."""
    named = request.topics
    if named is None or (version == 0 and not named):
        denied: list[MetadataResponseTopic] = []
        own = request
    else:
        by_id = any(topic.topic_id != ZERO_UUID for topic in named)
        accepted, denied, not_created = [], [], []
        for topic in named:
            name = topic_name(connection, topic)
            if name is not None and not may(connection, Operation.DESCRIBE, Resource.TOPIC, name):
                denied.append(_hidden(topic, by_id))
            elif name is not None and not by_id and not _may_create_if_missing(connection, request, name):
                not_created.append(MetadataResponseTopic(DENIED, name))
            else:
                accepted.append(topic)
        denied = not_created + denied
        own = copy(request)
        own.topics = accepted

    def hide(response: Any) -> None:
        if own.topics == [] and named:
            response.topics = []  # Version 0 describes all topics if none is named.
        if named is None or (version == 0 and not named):
            response.topics = [topic for topic in response.topics if may_describe(connection, topic.name)]
        if request.include_topic_authorized_operations:
            _show_operations(connection, response.topics, "topic_authorized_operations")
        response.topics = [*response.topics, *denied]
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(connection)

    return change_response(handle, connection, own, version, hide)


def _hidden(topic: MetadataRequestTopic, by_id: bool) -> MetadataResponseTopic:
    return MetadataResponseTopic(DENIED, None if by_id else topic.name, topic.topic_id)


def _may_create_if_missing(connection: Connection, request: MetadataRequest, name: str) -> bool:
    broker = connection.broker
    if not request.allow_auto_topic_creation or not broker.config["auto.create.topics.enable"]:
        return True
    return broker.topics.get(name) is not None or may_create(connection, name)


def may_create(connection: Connection, name: str) -> bool:
    """Return whether the client may create a topic."""
    return may_on_cluster(connection, Operation.CREATE) or may(connection, Operation.CREATE, Resource.TOPIC, name)


def cluster_operations(connection: Connection) -> int:
    """Return the operations on the cluster that the response shows; none if the client may not describe the cluster."""
    from stuntbroker.protocol.acls import CLUSTER_NAME

    if not may_on_cluster(connection, Operation.DESCRIBE):
        return NO_CLUSTER_OPERATIONS
    return operations_of(connection.broker.authorizer, connection, Resource.CLUSTER, CLUSTER_NAME)


def _show_operations(connection: Connection, topics: Iterable[Any], field: str) -> None:
    for topic in topics:
        if topic.name is not None:
            setattr(topic, field, operations_of(connection.broker.authorizer, connection, Resource.TOPIC, topic.name))


def check_describe_cluster(handle: Handler, connection: Connection, request: Any, version: int) -> Any:
    """Show the operations on the cluster that are permitted to the client."""
    if not request.include_cluster_authorized_operations:
        return handle(connection, request, version)

    def show(response: Any) -> None:
        if not response.error_code:
            response.cluster_authorized_operations = cluster_operations(connection)

    return change_response(handle, connection, request, version, show)


def check_describe_topic_partitions(
    handle: Handler, connection: Connection, request: DescribeTopicPartitionsRequest, version: int
) -> Any:
    """Hide the topics of which the client may not know."""
    names = [topic.name for topic in request.topics] or list(connection.broker.topics.by_name)
    hidden = {name for name in names if not may_describe(connection, name)}
    own = copy(request)
    own.topics = [topic for topic in request.topics if topic.name not in hidden]
    denied = [DescribeTopicPartitionsResponseTopic(DENIED, name) for name in sorted(hidden)] if request.topics else []

    def hide(response: Any) -> None:
        if own.topics == [] and request.topics:
            response.topics, response.next_cursor = [], None  # All topics are described if none is named.
        response.topics = [topic for topic in response.topics if topic.name not in hidden]
        _show_operations(connection, response.topics, "topic_authorized_operations")
        response.topics = [*response.topics, *denied]

    return change_response(handle, connection, own, version, hide)


# --- CreateTopics and DeleteTopics


def check_create_topics(handle: Handler, connection: Connection, request: CreateTopicsRequest, version: int) -> Any:
    """Refuse the topics that the client may not create; hide the configurations that it may not see."""
    denied = {topic.name for topic in request.topics if not may_create(connection, topic.name)}
    names = [topic.name for topic in request.topics]
    denied = {name for name in denied if names.count(name) == 1}
    own = copy(request)
    own.topics = [topic for topic in request.topics if topic.name not in denied]

    def refuse(response: Any) -> None:
        for topic in response.topics:
            may_see = connection.is_allowed(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name)
            if version >= CONFIGS_FROM and not topic.error_code and not may_see:
                topic.topic_config_error_code, topic.configs = DENIED, []
                topic.num_partitions = topic.replication_factor = NOT_SHOWN
        response.topics = [
            *response.topics,
            *(
                CreatableTopicResult(name, error_code=DENIED, error_message=AUTHORIZATION_FAILED, configs=[])
                for name in names
                if name in denied
            ),
        ]

    return change_response(handle, connection, own, version, refuse)


def check_delete_topics(handle: Handler, connection: Connection, request: DeleteTopicsRequest, version: int) -> Any:
    """Refuse the topics that the client may not delete, without the names of those of which it may not know."""
    accepted: list[Any] = []
    refused: list[DeletableTopicResult] = []
    by_state = bool(request.topics)
    for topic in request.topics or [DeleteTopicState(name) for name in request.topic_names]:
        name = topic_name(connection, topic)
        if name is None or may(connection, Operation.DELETE, Resource.TOPIC, name):
            accepted.append(topic if by_state else topic.name)
        else:
            shown = topic.name if topic.name is not None or not may_describe(connection, name) else name
            refused.append(DeletableTopicResult(shown, topic.topic_id, DENIED, MESSAGES[DENIED]))
    if not refused:
        return handle(connection, request, version)
    if not accepted:
        return DeleteTopicsResponse(responses=refused)
    own = copy(request)
    if by_state:
        own.topics = accepted
    else:
        own.topic_names = accepted

    def add_refused(response: Any) -> None:
        response.responses = [*response.responses, *refused]

    return change_response(handle, connection, own, version, add_refused)
