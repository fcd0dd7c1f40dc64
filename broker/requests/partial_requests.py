"""Requests of which a check passes only a part to the handler: the refusal of the other part, and the merged response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.produce.unacknowledged import fail_unacknowledged
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.broker.requests.plain_messages import Plain, error_answer, plain_request, whole_answer
from stuntbroker.protocol import api_keys
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import NodeEndpoint, ProduceResponse, TopicProduceResponse
from stuntbroker.protocol.produce_codec import ProduceFields
from stuntbroker.protocol.request_values import ACKS_NONE
from stuntbroker.protocol.versions import NO_PROTOCOL_FROM, SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler

PARTITIONS: Final = ("partition_responses", "partitions")
"""Names of the partition list in a topic of a response."""


def handle_own_part(
    handle: Handler, request: ClientRequest, own: Any, version: int, refusal: Any, answered: str
) -> Any:
    """Handle the part of a request that is not refused, and merge its response with the refusal.

    `answered`: name of the list in the response that has an element for each part of the request.
    """
    route = request.route

    def with_refusal(answer: Any) -> Any:
        response = whole_answer(route.key, version, answer)
        if response is NO_RESPONSE:
            return response
        if getattr(response, "error_code", ErrorCode.NONE):  # It is about the whole request.
            return response
        setattr(response, answered, merged(getattr(response, answered), getattr(refusal, answered)))
        return response

    return intercept_response(handle, request, own, version, with_refusal)


def handle_own_produce(
    handle: Handler,
    request: ClientRequest,
    own: ProduceFields,
    version: int,
    refused: Sequence[TopicProduceResponse],
    endpoints: Sequence[NodeEndpoint] = (),
) -> Any:
    """As `handle_own_part`, for Produce, which has fields of its own. `own` may have no batches, and acks=0."""
    _, acks, topic_batches = own
    route = request.route

    def with_refusal(answer: Any) -> Any:
        if not acks:
            return fail_unacknowledged(request)
        response = whole_answer(route.key, version, answer)
        if response is NO_RESPONSE:
            return response
        return ProduceResponse(merged(response.responses, refused), 0, endpoints)

    if topic_batches:
        return intercept_response(handle, request, own, version, with_refusal)
    return fail_unacknowledged(request) if acks == ACKS_NONE else ProduceResponse(refused, 0, endpoints)


def refusal_of(key: int, version: int, body: Any, error: int) -> Any:
    """Return the response that refuses a whole request, with Kafka's values in the other fields."""
    return refusal_about(key, version, plain_request(key, body), error)


def refusal_about(key: int, version: int, request: Plain, error: int) -> Any:
    """As `refusal_of`, for the fields of a request."""
    answer: Any = error_answer(key, request, error)
    match key:
        case api_keys.OFFSET_FETCH if version >= SEVERAL_FROM[api_keys.OFFSET_FETCH]:
            for group in answer.groups:
                group.topics = []
        case api_keys.OFFSET_FETCH:
            for part in (part for topic in answer.topics for part in topic.partitions):
                part.committed_offset = -1
        case api_keys.JOIN_GROUP:
            answer.protocol_name = None if version >= NO_PROTOCOL_FROM else ""
        case api_keys.LEAVE_GROUP:
            answer.members = []
        case api_keys.LIST_OFFSETS:
            for part in (part for topic in answer.topics for part in topic.partitions):
                part.timestamp = -1
        case api_keys.DELETE_RECORDS:
            for part in (part for topic in answer.topics for part in topic.partitions):
                part.low_watermark = -1
        case api_keys.OFFSET_FOR_LEADER_EPOCH:
            for part in (part for topic in answer.topics for part in topic.partitions):
                part.leader_epoch = -1
        case api_keys.ADD_PARTITIONS_TO_TXN:
            answer.error_code = ErrorCode.NONE
        case api_keys.INIT_PRODUCER_ID | api_keys.END_TXN:
            answer.producer_id = answer.producer_epoch = -1
        case api_keys.OFFSET_DELETE:
            answer.topics = []
    return answer


def merged(answered: Sequence[Any], refused: Sequence[Any]) -> list[Any]:
    """Merge the handled and the refused topics, groups or ids of a response; each topic appears once."""
    partitions = next((name for name in PARTITIONS if answered and hasattr(answered[0], name)), None)
    if partitions is None:
        return [*answered, *refused]
    together = {_name_and_id(each): each for each in answered}
    for each in refused:
        known = together.setdefault(_name_and_id(each), each)
        if known is not each:
            setattr(known, partitions, [*getattr(known, partitions), *getattr(each, partitions)])
    return list(together.values())


def name_of(topic: Any) -> str:
    """Return the name of a topic in a request or response, which has the field `topic` or `name`."""
    name: str = topic.topic if hasattr(topic, "topic") else topic.name
    return name


def _name_and_id(topic: Any) -> tuple[str, bytes | None]:
    """Return name and id of a topic in a response; depending on the version, either may be empty."""
    return name_of(topic), getattr(topic, "topic_id", None)
