"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListOffsetsResponse, key 2, versions 1-11."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_ihqq = Struct(">ihqq").unpack_from
_unpack_ihqqi = Struct(">ihqqi").unpack_from
_pack_i = Struct(">i").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqix = Struct(">ihqqix").pack


class ListOffsetsPartitionResponse(Message):
    """An element of `partitions` of ListOffsetsTopicResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    """An element of `topics` of ListOffsetsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsResponse(Message):
    """The message ListOffsetsResponse, versions 1-11."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListOffsetsResponse:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListOffsetsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ListOffsetsResponse:
    end = len(buf)
    if version >= 2:
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
    topics_list: list[ListOffsetsTopicResponse] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 22:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[ListOffsetsPartitionResponse] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code, t_p_timestamp, t_p_offset = _unpack_ihqq(buf, pos)
            pos += 22
            if version >= 4:
                t_p_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_leader_epoch = -1
            t_p = ListOffsetsPartitionResponse(t_p_partition_index, t_p_error_code, t_p_timestamp, t_p_offset, t_p_leader_epoch)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[ListOffsetsPartitionResponse] = t_partitions_list
        t = ListOffsetsTopicResponse(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[ListOffsetsTopicResponse] = topics_list
    message = ListOffsetsResponse(throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: ListOffsetsResponse, version: int) -> None:
    if version >= 2:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_ihqq(t_p.partition_index, t_p.error_code, t_p.timestamp, t_p.offset)
            if version >= 4:
                out += _pack_i(t_p.leader_epoch)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListOffsetsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
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
    topics_list: list[ListOffsetsTopicResponse] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 27:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[ListOffsetsPartitionResponse] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code, t_p_timestamp, t_p_offset, t_p_leader_epoch = _unpack_ihqqi(buf, pos)
            pos += 26
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = ListOffsetsPartitionResponse(t_p_partition_index, t_p_error_code, t_p_timestamp, t_p_offset, t_p_leader_epoch)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[ListOffsetsPartitionResponse] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = ListOffsetsTopicResponse(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[ListOffsetsTopicResponse] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListOffsetsResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: ListOffsetsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_ihqqix(t_p.partition_index, t_p.error_code, t_p.timestamp, t_p.offset, t_p.leader_epoch)
        out += b"\x00"
    out += b"\x00"
