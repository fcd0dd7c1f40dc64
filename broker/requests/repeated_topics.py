"""Topics that a request names several times, of which some responses have only one entry, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Partition_co = TypeVar("Partition_co", covariant=True)


class RequestedTopic(Protocol[Partition_co]):
    """A topic of a request, with its partitions."""

    name: str

    @property
    def partitions(self) -> Sequence[Partition_co]:
        """The partitions as the request has them."""


def partitions_by_topic(topics: Iterable[RequestedTopic[Partition_co]]) -> dict[str, list[Partition_co]]:
    """Return the partitions of each topic, in the order of the request."""
    merged: dict[str, list[Partition_co]] = {}
    for topic in topics:
        merged.setdefault(topic.name, []).extend(topic.partitions)
    return merged
