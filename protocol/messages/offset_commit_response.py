"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetCommitResponse, key 8, versions 2-10."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack


class OffsetCommitResponsePartition(Message):
    """An element of `partitions` of OffsetCommitResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(Message):
    """An element of `topics` of OffsetCommitResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[OffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitResponse(Message):
    """The message OffsetCommitResponse, versions 2-10."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetCommitResponse:
        try:
            if version >= 8:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetCommitResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 8:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetCommitResponse:
    end = len(buf)
    if version >= 3:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[OffsetCommitResponseTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 6:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[OffsetCommitResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            t_p = OffsetCommitResponsePartition(t_p_partition_index, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetCommitResponsePartition] = t_partitions_list
        t = OffsetCommitResponseTopic(t_name, ZERO_UUID, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetCommitResponseTopic] = topics_list
    message = OffsetCommitResponse(throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetCommitResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_ih(t_p.partition_index, t_p.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetCommitResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
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
    topics_list: list[OffsetCommitResponseTopic] = []
    for _ in range(elements):
        if version <= 9:
            t_name, pos = read_compact_string(buf, pos)
        else:
            t_name = ""
        if version >= 10:
            t_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            t_topic_id = ZERO_UUID
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 7:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[OffsetCommitResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = OffsetCommitResponsePartition(t_p_partition_index, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetCommitResponsePartition] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = OffsetCommitResponseTopic(t_name, t_topic_id, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetCommitResponseTopic] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetCommitResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: OffsetCommitResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        if version <= 9:
            write_compact_string(out, t.name)
        if version >= 10:
            out += _pack_u(t.topic_id)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_ihx(t_p.partition_index, t_p.error_code)
        out += b"\x00"
    out += b"\x00"
