"""DeleteTopics, key 20, versions 1-6.

v4 flexible. v5 error messages. v6 by name or by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.requested_topics import topics_to_delete
from stuntbroker.broker.metadata.topics import Topic
from stuntbroker.broker.metadata.unknown_topics import unknown_topic
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        Asking,
        ForgetsTopics,
        HasConfig,
        HasDataDir,
        HasEvents,
        HasLongRequests,
        HasSyncer,
        HasTopics,
    )

    class Uses(ForgetsTopics, HasConfig, HasDataDir, HasEvents, HasLongRequests, HasSyncer, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 20
VERSIONS = range(1, 7)
DISABLED_FROM: Final = 3
"""First version with TOPIC_DELETION_DISABLED."""


def handle(request: Asking[Uses], body: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse | None:
    """Delete topics; None when the response comes later."""
    broker = request.broker
    wanted = topics_to_delete(body, version)
    if not broker.config["delete.topic.enable"]:
        error = ErrorCode.TOPIC_DELETION_DISABLED if version >= DISABLED_FROM else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(w.name or "", w.topic_id, error, "Topic deletion is disabled.") for w in wanted
            ]
        )
    if body.timeout_ms <= 0:
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(w.name, w.topic_id, timed_out, None) for w in wanted]
        )
    return run_in_slices(request, _steps(broker, wanted))


def _steps(broker: Uses, wanted: list[DeleteTopicState]) -> Steps[DeleteTopicsResponse]:
    results, accepted = _reject_duplicates(broker, wanted)
    cost = 0
    for topic in accepted:
        yield cost
        results.append((yield from _delete_topic(broker, topic)))
        cost = ELEMENT_COST
    try:
        broker.data_dir.forget_deleted_start_offsets()
    except StorageError as fault:
        broker.events.error("start_offsets_not_written", fault=str(fault))
        for result in results:
            if not result.error_code:
                result.error_code, result.error_message = (
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{result.name} is deleted, but {fault}",
                )
    return DeleteTopicsResponse(responses=results)


def _reject_duplicates(
    broker: Uses, wanted: list[DeleteTopicState]
) -> tuple[list[DeletableTopicResult], list[DeleteTopicState]]:
    """Return the errors for topics that are requested more than once, and the other requested topics."""
    names = Counter(requested.name for requested in wanted if requested.topic_id == ZERO_UUID)
    ids = Counter(requested.topic_id for requested in wanted if requested.name is None)
    refused: dict[tuple[str | None, bytes], str] = {}
    results: list[DeletableTopicResult] = []
    for requested in wanted:
        what = requested.name, requested.topic_id
        if requested.name is None and requested.topic_id != ZERO_UUID:
            topic = broker.topics.by_id(requested.topic_id)
            if ids[requested.topic_id] > 1:
                refused[what] = "Duplicate topic id."
            elif topic is not None and names[topic.name]:
                message = "The provided topic name maps to an ID that was already supplied."
                results.append(DeletableTopicResult(topic.name, topic.id, ErrorCode.INVALID_REQUEST, message))
                refused[topic.name, ZERO_UUID] = refused[what] = ""
        elif requested.name is not None and requested.topic_id == ZERO_UUID and names[requested.name] > 1:
            refused[what] = "Duplicate topic name."
    results += [
        DeletableTopicResult(name, topic_id, ErrorCode.INVALID_REQUEST, message)
        for (name, topic_id), message in refused.items()
        if message
    ]
    return results, [requested for requested in wanted if (requested.name, requested.topic_id) not in refused]


def _delete_topic(broker: Uses, wanted: DeleteTopicState) -> Generator[int, None, DeletableTopicResult]:
    name, topic_id = wanted.name, wanted.topic_id
    if name is not None and topic_id != ZERO_UUID:
        message = "You may not specify both topic name and topic id."
        return DeletableTopicResult(name, topic_id, ErrorCode.INVALID_REQUEST, message)
    topic: Topic | None
    if name is None:
        if topic_id == ZERO_UUID:
            return DeletableTopicResult(
                None, topic_id, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
            )
        topic = broker.topics.by_id(topic_id)
    else:
        topic = broker.topics.get(name)
    if topic is None:
        what = (
            "This server does not host this topic ID."
            if name is None
            else "This server does not host this topic-partition."
        )
        return DeletableTopicResult(name, topic_id, unknown_topic(by_id=name is None), what)
    if topic.is_internal:
        # Unlike Kafka: internal topics cannot be deleted. In Kafka an administrator can delete them, which breaks the cluster.
        return DeletableTopicResult(
            topic.name, topic.id, ErrorCode.INVALID_REQUEST, f"{topic.name} is an internal topic: it cannot be deleted"
        )
    has_begun = False
    try:
        for _ in broker.topics.delete_steps(topic):
            if not has_begun:  # In the same turn as the entry in the journal: the broker may stop after it.
                has_begun = True
                broker.topic_deleted(topic.name)
            yield cost_of_change(broker.syncer is not None, 1)
    except StorageError as fault:
        if broker.topics.get(topic.name) is topic:  # Its deletion is not in the journal.
            return DeletableTopicResult(topic.name, topic.id, ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
        if not has_begun:
            broker.topic_deleted(topic.name)
        broker.events.error("topic_data_not_removed", topic=topic.name, fault=str(fault))
        return DeletableTopicResult(topic.name, topic.id, ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
    broker.events.info("topic_deleted", topic=topic.name)
    return DeletableTopicResult(topic.name, topic.id, ErrorCode.NONE, None)
