"""Produce requests that are long.

A Produce request to very many partitions is worked off a part at a time, and others have their turn between two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.apis import NO_ANSWER
from stuntbroker.broker.slices import ANSWERED_ELSEWHERE, SLICE_COST, Part, Steps
from stuntbroker.protocol.messages.produce_response import TopicProduceResponse
from stuntbroker.protocol.produce_codec import Answer, Asked, Wanted
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

PARTITIONS_AT_ONCE: Final = 250
"""More partitions than these make a request a long one."""
NEW_LOGS_AT_ONCE: Final = 16
"""So do more partitions whose files must be made, which takes a hundred times as long as to write into them."""
BEGIN_COST: Final = 100
"""Of the files of a new partition, in the units of a slice."""


def long_steps(
    connection: Connection, asked: Asked, version: int, new: list[PartitionLog], produce: Callable[..., Any]
) -> Steps:
    """`new`: the logs that have no file yet; `produce` handles a part."""
    for log in new:
        if connection.broker.topics.log(log.topic, log.index) is not log:
            continue  # Its topic was deleted meanwhile.
        try:
            log.begin()
        except StorageError:
            break  # The append meets it again, and answers it.
        yield BEGIN_COST
    transactional_id, acks, wanted = asked
    topics: list[TopicProduceResponse] = []
    for some in _parts_of(wanted):
        part = Part(connection)
        answer = produce(part, (transactional_id, acks, some), version)
        if answer is None:  # The transaction may be busy, or the disk syncs: the answer comes later.
            yield part.answer
            answer = part.answer.value
        if answer is None:
            return ANSWERED_ELSEWHERE  # The connection was closed.
        if answer is not NO_ANSWER:
            _add(topics, answer.responses)
        yield SLICE_COST
    return NO_ANSWER if acks == 0 else Answer(topics)


def _parts_of(wanted: Wanted) -> Iterator[Wanted]:
    """The batches of a request, in their order, up to PARTITIONS_AT_ONCE at a time."""
    part: list[Any] = []
    room = PARTITIONS_AT_ONCE
    for name, topic_id, batches in wanted:
        left = list(batches.items())
        while left:
            part.append((name, topic_id, dict(left[:room])))
            room -= len(left[:room])
            left = left[len(part[-1][2]) :]
            if not room:
                yield part
                part, room = [], PARTITIONS_AT_ONCE
    if part:
        yield part


def _add(topics: list[TopicProduceResponse], more: list[TopicProduceResponse]) -> None:
    for topic in more:
        if topics and (topics[-1].name, topics[-1].topic_id) == (topic.name, topic.topic_id):
            topics[-1].partition_responses = [*topics[-1].partition_responses, *topic.partition_responses]
        else:
            topics.append(topic)
