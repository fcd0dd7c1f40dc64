"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeLogDirsRequest, key 35, versions 1-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from

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
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)

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
    count = _unpack_i(buf, pos)[0]
    pos += 4
    if count > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if count < 0:
        topics: Sequence[DescribableLogDirTopic] | None = None
    else:
        left -= count
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(count):
            t_topic, pos = read_string(buf, pos)
            count = _unpack_i(buf, pos)[0]
            pos += 4
            if count > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if count < 0:
                raise DecodeError("Partitions is null", pos)
            left -= count
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partitions: Sequence[int] = list(unpack_from(f">{count}i", buf, pos))
            pos += 4 * count
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
    count = buf[pos]
    if count > 127:
        count, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    count -= 1
    if count > (end - pos) // 3:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if count < 0:
        topics: Sequence[DescribableLogDirTopic] | None = None
    else:
        left -= count
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[DescribableLogDirTopic] = []
        for _ in range(count):
            t_topic, pos = read_compact_string(buf, pos)
            count = buf[pos]
            if count > 127:
                count, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            count -= 1
            if count > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if count < 0:
                raise DecodeError("Partitions is null", pos)
            left -= count
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partitions: Sequence[int] = list(unpack_from(f">{count}i", buf, pos))
            pos += 4 * count
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
