"""Produce requests that take long: they are handled in slices, and other requests are served in between.

A Produce request to very many partitions is handled one part at a time; a large batch is validated and written one piece
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.request_part import RequestPart
from stuntbroker.broker.requests.slices import SLICE_COST, Steps
from stuntbroker.protocol.batches.check import records_fill_in_steps
from stuntbroker.protocol.batches.records import CODEC_MASK, LOG_OVERHEAD, read_header
from stuntbroker.protocol.messages.produce_response import TopicProduceResponse
from stuntbroker.protocol.produce_codec import ProduceFields, QuickProduceResponse, TopicBatches
from stuntbroker.protocol.request_values import ACKS_NONE
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE, LargeBatch
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, AskingPart, HasTopics

UsedByHandler = TypeVar("UsedByHandler", bound="HasTopics")
"""Parts of the broker that the handler of a part uses."""
PARTITIONS_AT_ONCE: Final = 250
"""Number of partitions above which a request is handled in slices."""
NEW_LOGS_AT_ONCE: Final = 16
"""The same limit for partitions without files: creating files takes a hundred times as long as appending to them."""
BEGIN_COST: Final = 100
"""Cost of creating a new partition's files, in slice units."""


def long_steps(
    request: Asking[UsedByHandler],
    fields: ProduceFields,
    version: int,
    new: list[PartitionLog],
    produce: Callable[[AskingPart[UsedByHandler], ProduceFields, int], Any],
) -> Steps[Any]:
    """Yield the steps of a long request, and return its response. `new`: logs without files; `produce`: handles a part."""
    for log in new:
        if request.broker.topics.log(log.topic, log.index) is not log:
            continue  # The topic was deleted meanwhile.
        try:
            log.create_first_segment()
        except StorageError:
            break  # The append will fail again and return the error.
        yield BEGIN_COST
    transactional_id, acks, topic_batches = fields
    topics: list[TopicProduceResponse] = []
    for some in _parts_of(topic_batches):
        part = RequestPart(request)
        large: list[tuple[PartitionLog, LargeBatch]] = []
        try:
            yield from _write_ahead(request.broker, some, version, large)
            answer = produce(part, (transactional_id, acks, some), version)
            if answer is None:  # The transaction is busy, or the disk syncs: wait for the response.
                yield part.answer
                answer = part.answer.value
        finally:
            for log, batch in large:
                log.large_batches.remove(batch)
                batch.discard()
        if answer is None:
            return None  # The connection was closed.
        if answer is not NO_RESPONSE:
            _add(topics, answer.responses)
        yield SLICE_COST
    return NO_RESPONSE if acks == ACKS_NONE else QuickProduceResponse(topics)


def _write_ahead(
    broker: HasTopics, topic_batches: TopicBatches, version: int, large: list[tuple[PartitionLog, LargeBatch]]
) -> Generator[int, None, None]:
    """Check the record lengths of each large batch, and write it to a file of its own; add (log, batch) to `large`.

    A batch that cannot be written ahead is written by its append, which returns the error if that fails too.
    """
    for name, topic_id, batches in topic_batches:
        topic = broker.topics.find(name, topic_id, version >= PRODUCE_IDS_FROM)
        if topic is None or topic.is_internal:
            continue
        for index, records in batches.items():
            if records is None or len(records) <= LARGE_BATCH_SIZE or not topic.has_partition(index):
                continue
            log = topic.partitions[index]
            header = read_header(records)
            size = header.length + LOG_OVERHEAD
            if not LARGE_BATCH_SIZE < size <= min(len(records), log.config.max_message_bytes):
                continue  # The batch is too large or malformed, and will be refused.
            batch = LargeBatch(log.disk, log.folder, records, size)
            log.large_batches.append(batch)
            large.append((log, batch))
            if not header.attributes & CODEC_MASK:
                for batch.is_filled in records_fill_in_steps(records[:size], header):
                    yield SLICE_COST
            if broker.topics.log(log.topic, log.index) is not log:
                continue  # Its topic was deleted meanwhile.
            try:
                log.create_first_segment()
                while not batch.is_written:
                    batch.write_piece()
                    yield SLICE_COST
            except StorageError:
                batch.discard()


def _parts_of(topic_batches: TopicBatches) -> Iterator[TopicBatches]:
    """Yield the batches of a request in order, up to PARTITIONS_AT_ONCE at a time."""
    part: list[Any] = []
    room = PARTITIONS_AT_ONCE
    for name, topic_id, batches in topic_batches:
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
