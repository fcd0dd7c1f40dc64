"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ElectLeadersRequest, key 43, versions 0-2."""

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

_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class TopicPartitions(Message):
    """An element of `topic_partitions` of ElectLeadersRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ElectLeadersRequest(Message):
    """The message ElectLeadersRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("election_type", "topic_partitions", "timeout_ms")
    __slots__ = FIELDS

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: Sequence[TopicPartitions] | None = (),
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ElectLeadersRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ElectLeadersRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ElectLeadersRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 1:
        election_type = _unpack_b(buf, pos)[0]
        pos += 1
    else:
        election_type = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("TopicPartitions counts more elements than there are bytes", pos)
    if elements < 0:
        topic_partitions: Sequence[TopicPartitions] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topic_partitions_list: list[TopicPartitions] = []
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
            t = TopicPartitions(t_topic, t_partitions)
            topic_partitions_list.append(t)
        topic_partitions = topic_partitions_list
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = ElectLeadersRequest(election_type, topic_partitions, timeout_ms)
    return message


def _encode_classic(out: bytearray, message: ElectLeadersRequest, version: int) -> None:
    if version >= 1:
        out += _pack_b(message.election_type)
    if message.topic_partitions is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_i(len(message.topic_partitions))
        for t in message.topic_partitions:
            write_string(out, t.topic)
            out += _pack_i(len(t.partitions))
            out += struct_pack(f">{len(t.partitions)}i", *t.partitions)
    out += _pack_i(message.timeout_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ElectLeadersRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    election_type = _unpack_b(buf, pos)[0]
    pos += 1
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("TopicPartitions counts more elements than there are bytes", pos)
    if elements < 0:
        topic_partitions: Sequence[TopicPartitions] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topic_partitions_list: list[TopicPartitions] = []
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
            t = TopicPartitions(t_topic, t_partitions)
            topic_partitions_list.append(t)
        topic_partitions = topic_partitions_list
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ElectLeadersRequest(election_type, topic_partitions, timeout_ms)
    return message


def _encode_flexible(out: bytearray, message: ElectLeadersRequest, version: int) -> None:
    out += _pack_b(message.election_type)
    if message.topic_partitions is None:
        out += b"\x00"
    else:
        count = len(message.topic_partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.topic_partitions:
            write_compact_string(out, t.topic)
            count = len(t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t.partitions)}i", *t.partitions)
            out += b"\x00"
    out += _pack_ix(message.timeout_ms)
