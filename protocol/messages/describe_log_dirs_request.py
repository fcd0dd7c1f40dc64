"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeLogDirsRequest, key 35, versions 1-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class DescribableLogDirTopic(Message):
    """An element of `topics` of DescribeLogDirsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class DescribeLogDirsRequest(Message):
    """The message DescribeLogDirsRequest, versions 1-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics",)
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeLogDirsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeLogDirsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeLogDirsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        topics: Sequence[DescribableLogDirTopic] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(elements):
            t_topic, pos = read_string(buf, pos)
            t_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if t_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partitions: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
            pos += 4 * t_elements
            t = DescribableLogDirTopic(t_topic, t_partitions)
            topics_list.append(t)
        topics = topics_list
    message = DescribeLogDirsRequest(topics)
    return message


def _encode_classic(out: bytearray, message: DescribeLogDirsRequest, version: int) -> None:
    if message.topics is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_i(len(message.topics))
        for t in message.topics:
            write_string(out, t.topic)
            out += _pack_i(len(t.partitions))
            out += struct_pack(f">{len(t.partitions)}i", *t.partitions)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeLogDirsRequest:
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
        topics: Sequence[DescribableLogDirTopic] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(elements):
            t_topic, pos = read_compact_string(buf, pos)
            t_elements = buf[pos]
            if t_elements > 127:
                t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_elements -= 1
            if t_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partitions: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
            pos += 4 * t_elements
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t = DescribableLogDirTopic(t_topic, t_partitions)
            topics_list.append(t)
        topics = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeLogDirsRequest(topics)
    return message


def _encode_flexible(out: bytearray, message: DescribeLogDirsRequest, version: int) -> None:
    if message.topics is None:
        out += b"\x00"
    else:
        count = len(message.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.topics:
            write_compact_string(out, t.topic)
            count = len(t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t.partitions)}i", *t.partitions)
            out += b"\x00"
    out += b"\x00"
