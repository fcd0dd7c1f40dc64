"""Hand-written codec for the usual form of Produce: one topic, no tagged fields, no error messages.

A transaction sends one such request. The generated codec creates an object for each of its parts and takes three times as
long. It is used for all other requests, and for malformed ones; a test compares the two codecs.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from stuntbroker.protocol.api_keys import APIS, PRODUCE
from stuntbroker.protocol.caches import keep
from stuntbroker.protocol.messages.produce_request import ProduceRequest
from stuntbroker.protocol.messages.produce_response import ProduceResponse, TopicProduceResponse
from stuntbroker.protocol.primitives import ZERO_UUID, Buffer
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM

FLEXIBLE_FROM: Final = APIS[PRODUCE].flexible_from
ONE_ELEMENT: Final = 2
"""Encoding of the compact count 1."""
COUNT_MAX: Final = 0x7F
"""Largest encoded compact count or length that takes one byte."""
ACKS_TO_TOPICS: Final = 7
"""Bytes of acks, time-out and the number of topics."""
TOPIC_ID_AND_COUNT: Final = 17
Head = tuple[str | None, int, str, bytes, int]
"""(transactional id, acks, topic name, topic id, number of partitions): the fields of a request before its partitions."""
heads_by_name: Final[dict[bytes, Head]] = {}
heads_by_id: Final[dict[bytes, Head]] = {}
"""Caches: encoded head -> its fields. A client sends the same head repeatedly."""

_unpack_acks: Final = Struct(">hiB").unpack_from
_unpack_topic: Final = Struct(">16sB").unpack_from
_unpack_partition: Final = Struct(">iBBB").unpack_from
pack_partition: Final = Struct(">ihqqq3s").pack
"""Encodes index, error, base offset, log append time in ms, log start offset, and NO_DETAILS."""
NO_DETAILS: Final = b"\x01\x00\x00"
"""No record errors, no message, no tagged fields."""
_LAST: Final = bytes(6)
"""Tags of the topic, throttle time, tags of the response."""

Partitions = dict[int, Buffer | None]
TopicBatches = Sequence[tuple[str, bytes, Partitions]]
"""Topics by name and id with the records of their partitions."""
ProduceFields = tuple[str | None, int, TopicBatches]
"""(transactional id, acks, topics by name and id with the records of their partitions)"""


def read_request(buf: Buffer, version: int, pos: int) -> ProduceFields:
    """Decode the request from `pos` to the end of `buf`. Raises DecodeError."""
    return _read_one_topic(buf, version, pos) or _from_message(ProduceRequest.decode(buf, version, pos))


def _read_one_topic(buf: Buffer, version: int, pos: int) -> ProduceFields | None:
    if version < FLEXIBLE_FROM:
        return None
    try:
        named = pos + (buf[pos] or 1) + ACKS_TO_TOPICS
        start = named + (TOPIC_ID_AND_COUNT if version >= PRODUCE_IDS_FROM else buf[named] + 1)
        if start > len(buf):
            return None
        head = buf[pos:start]
        known = heads_by_id if version >= PRODUCE_IDS_FROM else heads_by_name
        head_fields = known.get(head) if head.__class__ is bytes else None
        if head_fields is None:
            head_fields = _read_head(bytes(head), version)
            if head_fields is None:
                return None
        transactional_id, acks, name, topic_id, count = head_fields
        pos = start
        partitions: Partitions = {}
        for _ in range(count):
            index, size, second, third = _unpack_partition(buf, pos)
            if size < 0x80:
                pos += 5
            elif second < 0x80:
                size += (second << 7) - 0x80
                pos += 6
            elif third < 0x80:
                size += (second << 7) + (third << 14) - 0x4080
                pos += 7
            else:
                return None
            if not size:  # Null, which may be encoded in more bytes than it needs.
                return None
            stop = pos + size - 1
            if buf[stop]:
                return None
            partitions[index] = buf[pos:stop]
            pos = stop + 1
        if buf[pos] or buf[pos + 1]:
            return None
    except (IndexError, StructError):
        return None
    return transactional_id, acks, ((name, topic_id, partitions),)


def _read_head(head: bytes, version: int) -> Head | None:
    """Read the head of a request for one topic; None if it has several topics or is long. Raises IndexError, StructError."""
    size = head[0]
    stop = size or 1
    transactional_id = str(head[1:stop], "utf-8", "replace") if size else None
    acks, _, topics = _unpack_acks(head, stop)
    pos = stop + ACKS_TO_TOPICS
    if size > COUNT_MAX or topics != ONE_ELEMENT:
        return None
    if version >= PRODUCE_IDS_FROM:
        name, (topic_id, count) = "", _unpack_topic(head, pos)
    else:
        size = head[pos]
        if not 0 < size <= COUNT_MAX:
            return None
        name, topic_id = str(head[pos + 1 : pos + size], "utf-8", "replace"), ZERO_UUID
        count = head[pos + size]
    if not 1 < count <= COUNT_MAX:
        return None
    known = heads_by_id if version >= PRODUCE_IDS_FROM else heads_by_name
    return keep(known, head, (transactional_id, acks, name, topic_id, count - 1))


def _from_message(request: ProduceRequest) -> ProduceFields:
    """Convert a decoded request: the last entry of a repeated partition counts; topics without partitions are dropped."""
    topics: dict[tuple[str, bytes], Partitions] = {}
    for topic in request.topic_data:
        partitions = topics.setdefault((topic.name, topic.topic_id), {})
        for part in topic.partition_data:
            partitions[part.index] = part.records
    topic_batches = [(name, topic_id, partitions) for (name, topic_id), partitions in topics.items() if partitions]
    return request.transactional_id, request.acks, topic_batches


class OneTopicResponse:
    """A Produce response for one topic, from version FLEXIBLE_FROM, whose partitions have no messages and no record errors.

    `topic`: its name, or its id from version PRODUCE_IDS_FROM. `partitions`: fewer than COUNT_MAX results of `pack_partition`.
    """

    def __init__(self, topic: bytes, partitions: list[bytes]) -> None:
        self.topic = topic
        self.partitions = partitions

    def encode(self, out: bytearray, version: int) -> None:
        """Append the response to `out`."""
        topic, partitions = self.topic, self.partitions
        sized = b"\x02" if version >= PRODUCE_IDS_FROM else bytes((ONE_ELEMENT, len(topic) + 1))
        out += b"".join((sized, topic, bytes((len(partitions) + 1,)), *partitions, _LAST))


class QuickProduceResponse:
    """A Produce response, encoded by hand if it has the usual form."""

    def __init__(self, responses: list[TopicProduceResponse]) -> None:
        self.responses = responses

    def encode(self, out: bytearray, version: int) -> None:
        """Append the response to `out`."""
        topics = self.responses
        if version < FLEXIBLE_FROM or len(topics) != 1 or not _write_one_topic(out, version, topics[0]):
            ProduceResponse(topics).encode(out, version)


def _write_one_topic(out: bytearray, version: int, topic: TopicProduceResponse) -> bool:
    """Append the response for one topic; return False and write nothing if it needs the generated encoder."""
    partitions = topic.partition_responses
    head = topic.topic_id if version >= PRODUCE_IDS_FROM else topic.name.encode()
    parts = []
    for partition in partitions:
        if partition.error_message is not None or partition.record_errors or partition.current_leader is not None:
            return False
        parts.append(
            pack_partition(
                partition.index,
                partition.error_code,
                partition.base_offset,
                partition.log_append_time_ms,
                partition.log_start_offset,
                NO_DETAILS,
            )
        )
    if len(parts) >= COUNT_MAX or len(head) >= COUNT_MAX:
        return False
    OneTopicResponse(head, parts).encode(out, version)
    return True
