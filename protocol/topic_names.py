"""Rules for topic names, the names of the internal topics, and the type that names a partition."""

from __future__ import annotations

import re
from typing import Final

OFFSETS: Final = "__consumer_offsets"
TXN_STATE: Final = "__transaction_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
"""Kafka's log of metadata, which no client can create."""
INTERNAL: Final = frozenset({OFFSETS, TXN_STATE})
NAME = re.compile(r"[a-zA-Z0-9._-]+")
NAME_LENGTH_MAX: Final = 249

TopicPartition = tuple[str, int]
"""(topic name, partition index)"""


class TopicNameError(ValueError):
    """The topic name is invalid; the text is Kafka's error message."""


def check_name(name: str) -> None:
    """Raise TopicNameError, with Kafka's message, if a topic name is invalid."""
    if not name:
        raise TopicNameError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise TopicNameError(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > NAME_LENGTH_MAX:
        raise TopicNameError(f"Topic name is invalid: the length of '{name}' is longer than the max allowed length 249")
    if not NAME.fullmatch(name):
        raise TopicNameError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
