"""Error codes for topics that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import TopicNameError, check_name

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topics


def unknown_topic(by_id: bool) -> ErrorCode:
    """Return the error for an unknown topic, requested by id or by name."""
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def not_attempted(topics: Topics, name: str, index: int) -> ErrorCode:
    """Return the error of a partition in a request that is refused because of another partition."""
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topics.log(name, index) is None else ErrorCode.OPERATION_NOT_ATTEMPTED
    )


def unknown_or_invalid(name: str) -> ErrorCode:
    """Return the error for an unknown topic: INVALID_TOPIC_EXCEPTION if its name is invalid."""
    try:
        check_name(name)
    except TopicNameError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
