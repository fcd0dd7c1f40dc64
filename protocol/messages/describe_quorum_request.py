"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeQuorumRequest, key 55, versions 0-2."""

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
_pack_ix = Struct(">ix").pack


class PartitionData(Message):
    """An element of `partitions` of TopicData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index",)
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class TopicData(Message):
    """An element of `topics` of DescribeQuorumRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class DescribeQuorumRequest(Message):
    """The message DescribeQuorumRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics",)
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeQuorumRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeQuorumRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeQuorumRequest:
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
    topics_list: list[TopicData] = []
    for _ in range(elements):
        t_topic_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 5:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[PartitionData] = []
        for _ in range(t_elements):
            t_p_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = PartitionData(t_p_partition_index)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[PartitionData] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = TopicData(t_topic_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[TopicData] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeQuorumRequest(topics)
    return message


def _encode_flexible(out: bytearray, message: DescribeQuorumRequest, version: int) -> None:
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.topic_name)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_ix(t_p.partition_index)
        out += b"\x00"
    out += b"\x00"
