"""Checks of the arguments of a producer's methods, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from operator import index
from typing import Any, Final, SupportsIndex

from aiokafka.structs import OffsetAndMetadata, TopicPartition

from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.client.producer.coordination import GroupMetadata
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX
from stuntbroker.protocol.topic_names import check_name

Offsets = Mapping[TopicPartition, "int | OffsetAndMetadata | tuple[int, str]"]
NO_GENERATION: Final = -1
TEXT_BYTES_MAX: Final = (1 << 15) - 1
"""Maximum bytes of a string in a request, whose length is an int16."""


def check_topic(topic: Any) -> None:
    """Raise TypeError unless `topic` is a str; TopicNameError, a ValueError, unless it is a valid topic name."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a text, not {type(topic).__name__}")
    check_name(topic)


def check_topics(topics: Any) -> None:
    """Raise TypeError unless `topics` are several str; TopicNameError, a ValueError, if one is no valid topic name."""
    if isinstance(topics, str):
        raise TypeError(f"topics are a list of texts, not the text {topics!r}")
    for topic in topics:
        check_topic(topic)


def check_content(value: Any, key: Any, headers: Any) -> None:
    """Raise TypeError unless key and value are bytes or None, and headers tuples of a str and bytes or None."""
    for what, content in (("value", value), ("key", key)):
        if not isinstance(content, bytes | bytearray | memoryview | None):
            raise TypeError(f"a {what} is bytes or None, not {type(content).__name__}: use a serializer")
        if isinstance(content, memoryview) and not content.c_contiguous:
            raise TypeError(f"a {what} is a memoryview whose bytes are not contiguous: copy it with bytes()")
    for header in headers or ():
        if not isinstance(header, tuple) or len(header) != 2:
            raise TypeError(f"headers are tuples of a str and bytes or None, not {header!r:.40}")
        name, content = header
        if not isinstance(name, str) or not isinstance(content, bytes | None):
            raise TypeError(
                f"a header is a str and bytes or None, not {type(name).__name__} and {type(content).__name__}"
            )


def check_text(what: str, text: Any) -> None:
    """Raise TypeError unless `text` is a str; ValueError if it cannot be encoded or is too long for a request."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is a text, not {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as fault:
        raise ValueError(f"{what} {text!r} cannot be encoded as UTF-8: {fault.reason}") from None
    if size > TEXT_BYTES_MAX:
        raise ValueError(f"{what} has {size} bytes: at most {TEXT_BYTES_MAX} can be sent")


def check_names(transactional_id: Any, client_id: Any) -> None:
    """Check both ids as `check_text` does; the transactional id must not be empty, and `client_id` may be None."""
    check_text("transactional_id", transactional_id)
    check_text("client_id", client_id or "")
    if not transactional_id:
        raise ValueError(
            "transactional_id is empty: a transactional producer needs an id that stays the same after a restart"
        )


def timestamp_of(timestamp_ms: SupportsIndex | float) -> int:
    """Return a record's timestamp, in ms since 1970. Raises TypeError, and ValueError if it is negative, as Apache Kafka.

    Of a float, such as `time.time() * 1000`, the fraction is cut off.
    """
    if isinstance(timestamp_ms, float) and isfinite(timestamp_ms):
        timestamp_ms = int(timestamp_ms)
    if not isinstance(timestamp_ms, SupportsIndex):
        raise TypeError(f"the timestamp_ms is a number, not {type(timestamp_ms).__name__} {timestamp_ms!r:.20}")
    return _checked("timestamp_ms", timestamp_ms, INT64_MAX)


def identity_of(value: PreparedTxnState | str) -> PreparedTxnState:
    """Return a prepared state that is given as such or as text. Raises ValueError, TypeError."""
    if isinstance(value, str):
        return PreparedTxnState.parse(value)
    if not isinstance(value, PreparedTxnState):
        raise TypeError(f"a PreparedTxnState or its text is needed, not {type(value).__name__}")
    return value


def group_of(value: GroupMetadata | str) -> GroupMetadata:
    """Return a GroupMetadata that is given as such or as a group id. Raises ValueError, TypeError."""
    group = GroupMetadata(value) if isinstance(value, str) else value
    if not isinstance(group, GroupMetadata):
        raise TypeError(f"a GroupMetadata or a group id is needed, not {type(value).__name__}")
    check_text("a group id", group.group_id)
    if not group.group_id:
        raise ValueError("the group id is empty: give the group that commits the offsets")
    check_text("a member id", group.member_id)
    if group.group_instance_id is not None:
        check_text("a group instance id", group.group_instance_id)
    _checked("generation", group.generation_id, INT32_MAX, NO_GENERATION)
    return group


def offsets_of(offsets: Offsets) -> dict[TopicPartition, tuple[int, str]]:
    """Return partition -> (offset, metadata). Raises ValueError, TypeError for values that a request cannot carry."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets are a dict, partition -> offset, not {type(offsets).__name__}")
    checked = {}
    for key, value in offsets.items():
        if not isinstance(key, tuple) or len(key) != len(TopicPartition._fields):
            raise TypeError(f"a key of offsets is a TopicPartition, or (topic, partition), not {key!r:.40}")
        topic, partition = key
        check_topic(topic)
        if isinstance(value, SupportsIndex):
            offset: SupportsIndex = value
            metadata = ""
        elif isinstance(value, tuple | list) and len(value) >= 2:  # An OffsetAndMetadata; some have an epoch too.
            offset, metadata = value[:2]
        else:
            raise TypeError(
                f"the offset of {topic!r} is a whole number, a pair of it and metadata, or an OffsetAndMetadata, "
                f"not {type(value).__name__}"
            )
        check_text(f"the metadata of an offset of {topic!r}", metadata)
        place = TopicPartition(topic, _checked(f"partition of {topic!r}", partition, INT32_MAX))
        checked[place] = _checked(f"offset of {topic!r}", offset, INT64_MAX), metadata
    return checked


def _checked(what: str, value: SupportsIndex, highest: int, lowest: int = 0) -> int:
    """Return an integer of any type, such as NumPy's, as an int. Raises TypeError, ValueError."""
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"the {what} is a whole number, not {type(value).__name__}")
    number = index(value)
    if not lowest <= number <= highest:
        raise ValueError(f"{number} is no {what}: it has to be from {lowest} to {highest}")
    return number
