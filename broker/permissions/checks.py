"""Builds the permission checks of APIs. A check is an interceptor: it refuses a request, or the parts that are not permitted.

The router calls the checks of an API one after the other, before its handler. A check that refuses something asks `may`, which
logs the refusal; one that only hides it asks `request.is_allowed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.permissions.permitted import may
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.partial_requests import handle_own_part, name_of, refusal_of
from stuntbroker.broker.requests.plain_messages import whole_answer
from stuntbroker.protocol import api_keys
from stuntbroker.protocol.acls import CLUSTER_NAME, Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_client_quotas_response import EntityData
from stuntbroker.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from stuntbroker.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from stuntbroker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from stuntbroker.protocol.messages.list_partition_reassignments_response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from stuntbroker.protocol.messages.offset_delete_request import OffsetDeleteRequest
from stuntbroker.protocol.messages.offset_delete_response import (
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from stuntbroker.protocol.primitives import Message
from stuntbroker.protocol.versions import GROUP_ERROR_FROM, SEVERAL_FROM, TOPIC_IDS_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.requests.routes import Handler, Interceptor
    from stuntbroker.broker.services import Asking, HasAuthorizer, HasConfig, HasEvents, HasNodes, HasTopics

    class Uses(HasAuthorizer, HasConfig, HasEvents, HasNodes, HasTopics, Protocol):
        """Parts of the broker that the checks use."""

    CheckedRequest = Asking[Uses]
    """The request that is checked."""

    Names = Callable[[Any, int], Iterable[str]]
    """Returns the names of resources in a request of a version."""
    NameOf = Callable[[CheckedRequest, Any, int], str | None]
    """Returns the name of an element of a request of a version; None if its id is unknown."""

DENIED: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""Type of a resource -> error of a request that is not permitted."""
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
WITHOUT_MESSAGE: Final = frozenset({
    api_keys.DESCRIBE_GROUPS, api_keys.CREATE_PARTITIONS, api_keys.DESCRIBE_CLIENT_QUOTAS,
    api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS,
})  # fmt: skip
"""APIs whose refusals have no message."""


def denial_of(key: int, version: int, body: Any, error: ErrorCode) -> Any:
    """Return the response to a request that is not permitted, with Kafka's values in the other fields."""
    answer = refusal_of(key, version, body, error)
    explain(answer, None if key in WITHOUT_MESSAGE else MESSAGES[error])
    match key:
        case api_keys.OFFSET_FETCH if GROUP_ERROR_FROM <= version < SEVERAL_FROM[api_keys.OFFSET_FETCH]:
            answer.topics = []
        case api_keys.JOIN_GROUP:
            answer.member_id = ""
        case api_keys.LIST_PARTITION_REASSIGNMENTS:
            answer.topics = _without_reassignments(body)
        case api_keys.DESCRIBE_CLIENT_QUOTAS:
            answer.entries = None
        case api_keys.ALTER_CLIENT_QUOTAS:
            for altered, entry in zip(answer.entries, body.entries, strict=True):
                altered.entity = [EntityData(part.entity_type, part.entity_name) for part in entry.entity]
        case api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS:
            for result in answer.results:
                result.user = ""
        case api_keys.DELETE_GROUPS:
            answer.results = list({result.group_id: result for result in answer.results}.values())
        case api_keys.OFFSET_DELETE if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            answer.error_code, answer.topics = ErrorCode.NONE, _offsets_not_deleted(body, error)
        case api_keys.DESCRIBE_QUORUM:
            answer.topics = []
        case api_keys.DESCRIBE_LOG_DIRS:
            answer.results = []
        case api_keys.ALTER_REPLICA_LOG_DIRS:
            answer.results = _replicas_not_moved(body, error)
        case api_keys.UPDATE_FEATURES:
            answer.results = []
    return answer


def _offsets_not_deleted(body: OffsetDeleteRequest, error: ErrorCode) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            topic.name, [OffsetDeleteResponsePartition(part.partition_index, error) for part in topic.partitions]
        )
        for topic in body.topics
    ]


def _replicas_not_moved(body: AlterReplicaLogDirsRequest, error: ErrorCode) -> list[AlterReplicaLogDirTopicResult]:
    topics = [topic for log_dir in body.dirs for topic in log_dir.topics]
    return [
        AlterReplicaLogDirTopicResult(
            topic.name, [AlterReplicaLogDirPartitionResult(index, error) for index in topic.partitions]
        )
        for topic in topics
    ]


def _without_reassignments(body: ListPartitionReassignmentsRequest) -> list[OngoingTopicReassignment]:
    return [
        OngoingTopicReassignment(topic.name, [OngoingPartitionReassignment(index) for index in topic.partition_indexes])
        for topic in body.topics or ()
    ]


def may_on_cluster(request: CheckedRequest, *operations: Operation) -> bool:
    """Return whether the client may perform one of the operations on the cluster."""
    return any(request.is_allowed(each, Resource.CLUSTER, CLUSTER_NAME) for each in operations)


def for_cluster(*operations: Operation) -> Interceptor:
    """Return a check that refuses a request unless one of the operations on the cluster is permitted."""

    def check(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
        if may_on_cluster(request, *operations[1:]) or may(request, operations[0], Resource.CLUSTER, CLUSTER_NAME):
            return handle(request, body, version)
        return denial_of(request.route.key, version, body, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return check


def explain(message: Any, text: str | None) -> None:
    """Set the error message of a response, or of a part of it, wherever there is one beside an error code."""
    for name in message.FIELDS:
        value = getattr(message, name)
        if name == "error_message":
            # Unlike Kafka: in Kafka, the message about the cluster shows an internal object of the broker.
            message.error_message = text
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    explain(each, text)


def unless_on_cluster(operation: Operation, check: Interceptor) -> Interceptor:
    """Return a check that is only made if an operation on the cluster is not permitted."""

    def outer(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
        if may_on_cluster(request, operation):
            return handle(request, body, version)
        return check(handle, request, body, version)

    return outer


def for_all(operation: Operation, resource: Resource, names: Names) -> Interceptor:
    """Return a check that refuses a request unless an operation is permitted on all resources that it names."""

    def check(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
        if all(may(request, operation, resource, name) for name in names(body, version)):
            return handle(request, body, version)
        return denial_of(request.route.key, version, body, DENIED[resource])

    return check


def for_each(
    operation: Operation,
    resource: Resource,
    listed: str,
    answered: str,
    name_of: NameOf,
    *,
    repeated_fails: bool = False,
    handles_none: bool = False,
) -> Interceptor:
    """Return a check that refuses those elements of a request on which an operation is not permitted.

    `listed` and `answered`: name of the list of elements in the request and in the response. An element whose name is None
    is passed on, so that the handler refuses it; with `repeated_fails`, so is one that is in the request twice.
    `handles_none`: the handler also gets a request of which everything is refused, for errors that are not about elements.
    """

    def check(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
        elements: Sequence[Any] = getattr(body, listed) or ()
        names = [name_of(request, each, version) for each in elements]
        times = Counter(name for name in names if name is not None)
        unique = (name for name, count in times.items() if count == 1 or not repeated_fails)
        denied = {name for name in unique if not may(request, operation, resource, name)}
        if not denied:
            return handle(request, body, version)
        own, refused = copy(body), copy(body)
        named = list(zip(names, elements, strict=True))
        setattr(own, listed, [each for name, each in named if name not in denied])
        setattr(refused, listed, [each for name, each in named if name in denied])
        refusal = denial_of(request.route.key, version, refused, DENIED[resource])
        if not getattr(own, listed) and not handles_none:
            return refusal
        return handle_own_part(handle, request, own, version, refusal, answered)

    return check


def shows_only(operation: Operation, resource: Resource, answered: str, name: str) -> Interceptor:
    """Return a check that hides those elements of a response on which an operation is not permitted.

    `answered`: name of the list of elements; `name`: field of an element with the name of the resource.
    """

    def check(handle: Handler, request: CheckedRequest, body: Any, version: int) -> Any:
        def hide(response: Any) -> None:
            elements = getattr(response, answered)
            shown = [each for each in elements if request.is_allowed(operation, resource, getattr(each, name))]
            setattr(response, answered, shown)

        return change_response(handle, request, body, version, hide)

    return check


def itself(request: CheckedRequest, name: str, version: int) -> str:
    """Return the name of an element that is a name."""
    return name


def topic_name(request: CheckedRequest, topic: Any, version: int) -> str | None:
    """Return the name of a topic in a request, which has an id instead from some version of an API on; None if it is unknown."""
    if version < TOPIC_IDS_FROM.get(request.route.key, version + 1):
        return name_of(topic)
    return request.broker.topics.name_of(topic.topic_id)


def change_response(
    handle: Handler, request: CheckedRequest, body: Any, version: int, change: Callable[[Any], None]
) -> Any:
    """Handle a request, and change its response before it is sent."""
    route = request.route

    def changed(answer: Any) -> Any:
        response = whole_answer(route.key, version, answer)
        if response is NO_RESPONSE:
            return response
        change(response)
        return response

    return intercept_response(handle, request, body, version, changed)
