"""Permission checks of requests about topics that differ from the usual ones in `gate.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.metadata.requested_topics import (
    creates_missing,
    each_once,
    named_topics,
    request_error,
    topics_to_delete,
    topics_to_describe,
)
from stuntbroker.broker.permissions.authorizer import operations_of
from stuntbroker.broker.permissions.checks import MESSAGES, change_response, may_on_cluster
from stuntbroker.broker.permissions.permitted import may
from stuntbroker.broker.produce.produce_checks import has_transactional
from stuntbroker.broker.requests.partial_requests import handle_own_produce
from stuntbroker.protocol.acls import CLUSTER_NAME, Operation, Resource
from stuntbroker.protocol.api_keys import DELETE_TOPICS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreateTopicsRequest
from stuntbroker.protocol.messages.create_topics_response import CreatableTopicResult
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from stuntbroker.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from stuntbroker.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.metadata_response import MetadataResponseTopic
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.produce_codec import ProduceFields, TopicBatches
from stuntbroker.protocol.topic_names import CLUSTER_METADATA
from stuntbroker.protocol.versions import CREATED_TOPICS_DESCRIBED_FROM, PRODUCE_IDS_FROM, TOPIC_IDS_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.permissions.checks import CheckedRequest
    from stuntbroker.broker.requests.routes import Handler

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
AUTHORIZATION_FAILED: Final = "Authorization failed."
NO_CLUSTER_OPERATIONS: Final = 0
NOT_SHOWN: Final = -1
"""Number of partitions, and replication factor, of a topic whose configuration the client may not see."""


def may_describe(request: CheckedRequest, name: str) -> bool:
    """Return whether the client may know of a topic."""
    return request.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name)


# --- Produce


def check_produce(handle: Handler, request: CheckedRequest, fields: ProduceFields, version: int) -> Any:
    """Refuse the batches for topics to which the client may not write, and transactions that are not the client's."""
    transactional_id, acks, topic_batches = fields
    if has_transactional(topic_batches) and (
        transactional_id is None or not may(request, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    ):
        refused = _refused(topic_batches, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return handle_own_produce(handle, request, (transactional_id, acks, []), version, refused)
    names = [_name_to_write(request, name, topic_id, version) for name, topic_id, _ in topic_batches]
    denied = {
        name
        for name in dict.fromkeys(names)
        if name is not None and not may(request, Operation.WRITE, Resource.TOPIC, name)
    }
    if not denied:
        return handle(request, fields, version)
    named = list(zip(names, topic_batches, strict=True))
    own = [batches for name, batches in named if name not in denied]
    refused = _refused([batches for name, batches in named if name in denied], DENIED)
    return handle_own_produce(handle, request, (transactional_id, acks, own), version, refused)


def _name_to_write(request: CheckedRequest, name: str, topic_id: bytes, version: int) -> str | None:
    """Return the name of the topic of a Produce request; None if its id is unknown."""
    if version < PRODUCE_IDS_FROM:
        return name
    return request.broker.topics.name_of(topic_id)


def _refused(topic_batches: TopicBatches, error: ErrorCode) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(name, topic_id, [PartitionProduceResponse(index, error, -1) for index in parts])
        for name, topic_id, parts in topic_batches
    ]


# --- Metadata


def check_metadata(handle: Handler, request: CheckedRequest, body: MetadataRequest, version: int) -> Any:
    """Hide the topics of which the client may not know; refuse to create those that it may not create."""
    named = named_topics(body, version)
    denied: list[MetadataResponseTopic] = []
    not_created: list[MetadataResponseTopic] = []
    own = copy(body)
    if named is not None:
        if request_error(named, version):
            return handle(request, body, version)
        accepted = []
        for topic in each_once(named):
            name = _requested_name(request, topic)
            if name is not None and not may(request, Operation.DESCRIBE, Resource.TOPIC, name):
                shown = topic.name if topic.topic_id == ZERO_UUID else None
                denied.append(MetadataResponseTopic(DENIED, shown, topic.topic_id))
            elif topic.name and not _may_create_if_missing(request, body, topic.name):
                not_created.append(MetadataResponseTopic(DENIED, name))
            else:
                accepted.append(topic)
        own.topics = accepted

    def hide(response: Any) -> None:
        if named is None:
            response.topics = [topic for topic in response.topics if may_describe(request, topic.name)]
        elif not own.topics:
            response.topics = []  # Version 0 describes all topics if none is named.
        if body.include_topic_authorized_operations:
            _show_operations(request, response.topics)
        response.topics = [*response.topics, *not_created, *denied]
        if body.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(request)

    return change_response(handle, request, own, version, hide)


def _requested_name(request: CheckedRequest, topic: MetadataRequestTopic | DeleteTopicState) -> str | None:
    """Return the name of a topic in a request that has names and ids; None if its id is unknown."""
    if topic.topic_id == ZERO_UUID:
        return topic.name
    return request.broker.topics.name_of(topic.topic_id)


def _may_create_if_missing(request: CheckedRequest, body: MetadataRequest, name: str) -> bool:
    broker = request.broker
    if not creates_missing(broker.config, body):
        return True
    return broker.topics.get(name) is not None or may_create(request, name)


def may_create(request: CheckedRequest, name: str) -> bool:
    """Return whether the client may create a topic."""
    return may_on_cluster(request, Operation.CREATE) or may(request, Operation.CREATE, Resource.TOPIC, name)


def cluster_operations(request: CheckedRequest) -> int:
    """Return the operations on the cluster that the response shows; none if the client may not describe the cluster."""
    if not may_on_cluster(request, Operation.DESCRIBE):
        return NO_CLUSTER_OPERATIONS
    return operations_of(request.broker.authorizer, request, Resource.CLUSTER, CLUSTER_NAME)


def _show_operations(request: CheckedRequest, topics: Iterable[Any]) -> None:
    for topic in topics:
        if topic.name is not None:
            topic.topic_authorized_operations = operations_of(
                request.broker.authorizer, request, Resource.TOPIC, topic.name
            )


def check_describe_cluster(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
    """Show the operations on the cluster that are permitted to the client."""
    if not body.include_cluster_authorized_operations:
        return handle(request, body, version)

    def show(response: Any) -> None:
        if not response.error_code:
            response.cluster_authorized_operations = cluster_operations(request)

    return change_response(handle, request, body, version, show)


def check_describe_topic_partitions(
    handle: Handler, request: CheckedRequest, body: DescribeTopicPartitionsRequest, version: int
) -> Any:
    """Hide the topics of which the client may not know, so that the pages have the others only."""
    names = topics_to_describe(body, request.broker.topics)
    if names is None:
        return handle(request, body, version)  # It is refused.
    cursor = body.cursor
    permitted = [name for name in names if may_describe(request, name)]
    hidden = sorted(set(names).difference(permitted)) if body.topics else []
    denied = [DescribeTopicPartitionsResponseTopic(DENIED, name) for name in hidden]
    if not permitted:
        return DescribeTopicPartitionsResponse(topics=denied)
    own = copy(body)
    own.topics = [TopicRequest(name) for name in permitted]
    if cursor is not None and cursor.topic_name not in permitted:
        own.cursor = None

    def show(response: Any) -> None:
        _show_operations(request, response.topics)
        response.topics = [*response.topics, *denied]

    return change_response(handle, request, own, version, show)


# --- CreateTopics and DeleteTopics


def check_create_topics(handle: Handler, request: CheckedRequest, body: CreateTopicsRequest, version: int) -> Any:
    """Refuse the topics that the client may not create; hide the configurations that it may not see."""
    times = Counter(topic.name for topic in body.topics)
    unique = (name for name, count in times.items() if count == 1 and name != CLUSTER_METADATA)
    denied = {name for name in unique if not may_create(request, name)}
    own = copy(body)
    own.topics = [topic for topic in body.topics if topic.name not in denied]

    def refuse(response: Any) -> None:
        for topic in response.topics:
            may_see = request.is_allowed(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name)
            if version >= CREATED_TOPICS_DESCRIBED_FROM and not topic.error_code and not may_see:
                topic.topic_config_error_code, topic.configs = DENIED, []
                topic.num_partitions = topic.replication_factor = NOT_SHOWN
        refused = [
            CreatableTopicResult(topic.name, error_code=DENIED, error_message=AUTHORIZATION_FAILED, configs=[])
            for topic in body.topics
            if topic.name in denied
        ]
        response.topics = [*response.topics, *refused]

    return change_response(handle, request, own, version, refuse)


def check_delete_topics(handle: Handler, request: CheckedRequest, body: DeleteTopicsRequest, version: int) -> Any:
    """Refuse the topics that the client may not delete, without the names of those of which it may not know.

    What is invalid for another reason is passed on: topics that are requested twice, or by name and id, for example.
    """
    if body.timeout_ms <= 0 or not request.broker.config["delete.topic.enable"]:
        return handle(request, body, version)
    by_state = version >= TOPIC_IDS_FROM[DELETE_TOPICS]
    wanted = topics_to_delete(body, version)
    times = Counter((topic.name, topic.topic_id) for topic in wanted)
    own, refused = copy(body), []
    accepted: list[DeleteTopicState] = []
    for topic in wanted:
        is_invalid = times[topic.name, topic.topic_id] > 1 or (topic.name is None) == (topic.topic_id == ZERO_UUID)
        refusal = None if is_invalid else _deletion_refusal(request, topic)
        if refusal is None:
            accepted.append(topic)
        else:
            refused.append(refusal)
    if not refused:
        return handle(request, body, version)
    if not accepted:
        return DeleteTopicsResponse(responses=refused)
    own.topics = accepted if by_state else []
    own.topic_names = [] if by_state else [topic.name or "" for topic in accepted]

    def add_refused(response: Any) -> None:
        response.responses = [*response.responses, *refused]

    return change_response(handle, request, own, version, add_refused)


def _deletion_refusal(request: CheckedRequest, topic: DeleteTopicState) -> DeletableTopicResult | None:
    """Return the refusal of a topic that the client may not delete; None if it may, or if there is none."""
    name = _requested_name(request, topic)
    if name is None:
        return None
    if not may(request, Operation.DESCRIBE, Resource.TOPIC, name):
        return DeletableTopicResult(topic.name, topic.topic_id, DENIED, MESSAGES[DENIED])
    if request.broker.topics.get(name) is None or may(request, Operation.DELETE, Resource.TOPIC, name):
        return None
    return DeletableTopicResult(name, topic.topic_id, DENIED, MESSAGES[DENIED])
