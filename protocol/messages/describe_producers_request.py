"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeProducersRequest, key 61, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, unpack_from
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


class TopicRequest(Message):
    """An element of `topics` of DescribeProducersRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partition_indexes")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class DescribeProducersRequest(Message):
    """The message DescribeProducersRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics",)
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
    ) -> None:
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeProducersRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeProducersRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeProducersRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[TopicRequest] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 4:
            raise DecodeError("PartitionIndexes counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("PartitionIndexes is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partition_indexes: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
        pos += 4 * t_elements
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = TopicRequest(t_name, t_partition_indexes)
        topics_list.append(t)
    topics: Sequence[TopicRequest] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeProducersRequest(topics)
    return message


def _encode_flexible(out: bytearray, message: DescribeProducersRequest, version: int) -> None:
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        count = len(t.partition_indexes) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        out += struct_pack(f">{len(t.partition_indexes)}i", *t.partition_indexes)
        out += b"\x00"
    out += b"\x00"
