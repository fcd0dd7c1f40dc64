"""Which topics a request is about, for its handler and for the check of its permissions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stuntbroker.protocol.api_keys import DELETE_TOPICS, METADATA
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.versions import TOPIC_IDS_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest


def named_topics(request: MetadataRequest, version: int) -> Sequence[MetadataRequestTopic] | None:
    """Return the topics that a request names, by name or, from version 12 on, by id; None if it asks for all topics."""
    return None if version == 0 and not request.topics else request.topics


def creates_missing(config: BrokerConfig, request: MetadataRequest) -> bool:
    """Return whether topics that a request names are created if they do not exist."""
    return request.allow_auto_topic_creation and bool(config["auto.create.topics.enable"])


def request_error(topics: Sequence[MetadataRequestTopic], version: int) -> ErrorCode:
    """Return the error of the whole request: a topic is identified in a way that the version does not support."""
    if version < TOPIC_IDS_FROM[METADATA] and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in topics
    ):
        return ErrorCode.INVALID_REQUEST
    by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
    if not by_id and any(topic.name is None for topic in topics):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def each_once(topics: Sequence[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Return the topics without duplicates; if any has an id, those without one are skipped."""
    by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
    unique: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for topic in topics:
        if not by_id or topic.topic_id != ZERO_UUID:
            unique.setdefault((topic.name, topic.topic_id), topic)
    return list(unique.values())


def topics_to_delete(body: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    """Return the topics that are to be deleted, which have names alone in older versions."""
    if version >= TOPIC_IDS_FROM[DELETE_TOPICS]:
        return list(body.topics)
    return [DeleteTopicState(name) for name in body.topic_names]


def topics_to_describe(body: DescribeTopicPartitionsRequest, topics: Topics) -> list[str] | None:
    """Return the names of the topics that are to be described, sorted, from the cursor on; None if the cursor is invalid."""
    requested = {topic.name for topic in body.topics}
    names = sorted(requested or topics.by_name)
    cursor = body.cursor
    if cursor is None:
        return names
    if cursor.partition_index < 0 or (requested and cursor.topic_name not in requested):
        return None
    return [name for name in names if name >= cursor.topic_name]
