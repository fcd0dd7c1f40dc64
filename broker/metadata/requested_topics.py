"""The topics that a Metadata request names: by name or, from version 12 on, by id."""

from __future__ import annotations

from collections.abc import Sequence

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.metadata_request import MetadataRequestTopic
from stuntbroker.protocol.primitives import ZERO_UUID


def request_error(topics: Sequence[MetadataRequestTopic], version: int) -> ErrorCode:
    """Return the error of the whole request: a topic is identified in a way that the version does not support."""
    if version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics):
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
