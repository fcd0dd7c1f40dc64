"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeTopicPartitionsRequest, key 75, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class TopicRequest(Message):
    """An element of `topics` of DescribeTopicPartitionsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name",)
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class Cursor(Message):
    """`cursor` of DescribeTopicPartitionsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_name", "partition_index")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(Message):
    """The message DescribeTopicPartitionsRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "response_partition_limit", "cursor")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeTopicPartitionsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeTopicPartitionsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeTopicPartitionsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[TopicRequest] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = TopicRequest(t_name)
        topics_list.append(t)
    topics: Sequence[TopicRequest] = topics_list
    response_partition_limit = _unpack_i(buf, pos)[0]
    pos += 4
    pos += 1
    if buf[pos - 1] < 128:
        c_topic_name, pos = read_compact_string(buf, pos)
        c_partition_index = _unpack_i(buf, pos)[0]
        pos += 4
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        cursor: Cursor | None = Cursor(c_topic_name, c_partition_index)
    else:
        cursor = None
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeTopicPartitionsRequest(topics, response_partition_limit, cursor)
    return message


def _encode_flexible(out: bytearray, message: DescribeTopicPartitionsRequest, version: int) -> None:
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        out += b"\x00"
    out += _pack_i(message.response_partition_limit)
    if message.cursor is None:
        out += b"\xff"
    else:
        out += b"\x01"
        write_compact_string(out, message.cursor.topic_name)
        out += _pack_ix(message.cursor.partition_index)
    out += b"\x00"
