"""Which names a topic may have, those of the internal topics, and how a partition is named."""

from __future__ import annotations

import re
from typing import Final

OFFSETS: Final = "__consumer_offsets"
TXN_STATE: Final = "__transaction_state"
INTERNAL: Final = frozenset({OFFSETS, TXN_STATE})
NAME = re.compile(r"[a-zA-Z0-9._-]+")
NAME_LENGTH_MAX: Final = 249

TopicPartition = tuple[str, int]
"""The name of a topic, and the number of a partition."""


class TopicNameError(ValueError):
    """The name cannot be a topic's; the text is Kafka's reason."""


def check_name(name: str) -> None:
    """Raise TopicNameError, with Kafka's message, for a name that no topic can have."""
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
