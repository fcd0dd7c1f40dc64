"""Permission checks of requests about groups and transactions that differ from the usual ones in `gate.py`."""

from __future__ import annotations

from copy import copy
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.metadata.unknown_topics import not_attempted
from stuntbroker.broker.permissions.authorizer import operations_of
from stuntbroker.broker.permissions.checks import (
    DENIED,
    MESSAGES,
    change_response,
    denial_of,
    topic_name,
)
from stuntbroker.broker.permissions.permitted import may
from stuntbroker.broker.permissions.topic_checks import may_describe
from stuntbroker.broker.requests.partial_requests import handle_own_part, refusal_of
from stuntbroker.protocol import api_keys
from stuntbroker.protocol.acls import CLUSTER_NAME, Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from stuntbroker.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from stuntbroker.protocol.messages.offset_fetch_response import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from stuntbroker.protocol.request_values import OF_GROUP, OF_SHARE_GROUP, OF_TRANSACTION
from stuntbroker.protocol.versions import SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.permissions.checks import CheckedRequest
    from stuntbroker.broker.requests.routes import Handler

COORDINATED: Final = {OF_GROUP: Resource.GROUP, OF_TRANSACTION: Resource.TRANSACTIONAL_ID}
"""Type of coordinator -> the resource that its keys name."""
SHARE_FROM: Final = 6
"""First version of FindCoordinator with share groups."""
NO_OFFSET: Final = -1


def check_find_coordinator(handle: Handler, request: CheckedRequest, body: FindCoordinatorRequest, version: int) -> Any:
    """Refuse the groups and transactional ids that the client may not describe."""
    keys = body.coordinator_keys if version >= SEVERAL_FROM[api_keys.FIND_COORDINATOR] else [body.key]
    if body.key_type == OF_SHARE_GROUP and version >= SHARE_FROM:
        is_permitted = may(request, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
        resource, denied = Resource.CLUSTER, set() if is_permitted else set(keys)
    elif body.key_type in COORDINATED:
        resource = COORDINATED[body.key_type]
        denied = {key for key in dict.fromkeys(keys) if not may(request, Operation.DESCRIBE, resource, key)}
    else:
        return handle(request, body, version)
    if not denied:
        return handle(request, body, version)
    error = DENIED[resource]
    if version < SEVERAL_FROM[api_keys.FIND_COORDINATOR]:
        return FindCoordinatorResponse(0, error, MESSAGES[error], -1, "", -1)
    refusal = FindCoordinatorResponse(
        coordinators=[Coordinator(key, -1, "", -1, error, "") for key in keys if key in denied]
    )
    own = copy(body)
    own.coordinator_keys = [key for key in keys if key not in denied]
    if not own.coordinator_keys:
        return refusal
    return handle_own_part(handle, request, own, version, refusal, "coordinators")


def check_offset_fetch(handle: Handler, request: CheckedRequest, body: OffsetFetchRequest, version: int) -> Any:
    """Refuse the offsets of groups and topics that the client may not describe."""
    key = request.route.key
    if version < SEVERAL_FROM[api_keys.OFFSET_FETCH]:
        if not may(request, Operation.DESCRIBE, Resource.GROUP, body.group_id):
            return denial_of(key, version, body, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        own, refused = copy(body), copy(body)
        own.topics, refused.topics = _split_topics(request, body.topics, version)
        refusal = refusal_of(key, version, refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if refused.topics else None

        def hide_topics(response: Any) -> None:
            shown = [topic for topic in response.topics if may_describe(request, topic.name)]
            response.topics = [*shown, *(() if refusal is None else refusal.topics)]

        return change_response(handle, request, own, version, hide_topics)

    own, refused = copy(body), copy(body)
    names = dict.fromkeys(group.group_id for group in body.groups)
    may_describe_group = {name: may(request, Operation.DESCRIBE, Resource.GROUP, name) for name in names}
    refused.groups = [each for each in body.groups if not may_describe_group[each.group_id]]
    denied_groups = refusal_of(key, version, refused, ErrorCode.GROUP_AUTHORIZATION_FAILED).groups
    own.groups = []
    denied_topics: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in body.groups:
        if may_describe_group[group.group_id]:
            part = copy(group)
            part.topics, denied = _split_topics(request, group.topics, version)
            own.groups.append(part)
            denied_topics.setdefault(group.group_id, []).extend(_refused_in_group(denied))

    def hide(response: Any) -> None:
        for group in response.groups:
            shown = [topic for topic in group.topics if _is_known(request, topic, version)]
            denied = denied_topics.pop(group.group_id, [])
            group.topics = shown if group.error_code else [*shown, *denied]
        response.groups = [*response.groups, *denied_groups]

    return change_response(handle, request, own, version, hide)


def _is_known(request: CheckedRequest, topic: Any, version: int) -> bool:
    """Return whether the client may know of a topic; True for a topic of which only an unknown id is given."""
    name = topic_name(request, topic, version)
    return name is None or may_describe(request, name)


def _split_topics(request: CheckedRequest, topics: Any, version: int) -> tuple[Any, list[Any]]:
    """Return the topics of a request of which the client may know (None: all), and the others."""
    if topics is None:
        return None, []
    known = [_is_known(request, topic, version) for topic in topics]
    return list(compress(topics, known)), [topic for topic, is_known in zip(topics, known, strict=True) if not is_known]


def _refused_in_group(topics: list[Any]) -> list[OffsetFetchResponseTopics]:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [OffsetFetchResponsePartitions(index, NO_OFFSET, -1, "", error) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def check_describe_groups(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
    """Show the operations on each group that are permitted to the client."""
    if not body.include_authorized_operations:
        return handle(request, body, version)

    def show(response: Any) -> None:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = operations_of(
                    request.broker.authorizer, request, Resource.GROUP, group.group_id
                )

    return change_response(handle, request, body, version, show)


def check_init_producer_id(handle: Handler, request: CheckedRequest, body: InitProducerIdRequest, version: int) -> Any:
    """Refuse a transactional id to which the client may not write, and idempotence to a client that may write nowhere."""
    transactional_id = body.transactional_id
    if transactional_id is not None:
        if may(request, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
            return handle(request, body, version)
        return InitProducerIdResponse(0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)
    may_write_somewhere = request.broker.authorizer.allows_some(request, Operation.WRITE, Resource.TOPIC)
    if may_write_somewhere or may(request, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME):
        return handle(request, body, version)
    return InitProducerIdResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, -1)


def check_add_partitions_to_txn(
    handle: Handler, request: CheckedRequest, body: AddPartitionsToTxnRequest, version: int
) -> Any:
    """Refuse a transaction that is not the client's, or that has a topic to which the client may not write."""
    if version >= SEVERAL_FROM[api_keys.ADD_PARTITIONS_TO_TXN]:  # Only brokers send it.
        if may(request, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            return handle(request, body, version)
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    transactional_id, topics = body.v3_and_below_transactional_id, body.v3_and_below_topics
    if not may(request, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        denied = {topic.name for topic in topics}
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        denied = {t.name for t in topics if not may(request, Operation.WRITE, Resource.TOPIC, t.name)}
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not denied:
            return handle(request, body, version)

    def code(name: str, index: int) -> ErrorCode:
        return error if name in denied else not_attempted(request.broker.topics, name, index)

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [AddPartitionsToTxnPartitionResult(index, code(topic.name, index)) for index in topic.partitions],
            )
            for topic in topics
        ]
    )


def check_describe_transactions(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
    """Hide the topics of a transaction of which the client may not know."""

    def hide(response: Any) -> None:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if may_describe(request, topic.topic)]

    return change_response(handle, request, body, version, hide)
