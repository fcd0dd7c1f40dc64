"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListPartitionReassignmentsResponse, key 46, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class OngoingPartitionReassignment(Message):
    """An element of `partitions` of OngoingTopicReassignment."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.adding_replicas = adding_replicas
        self.removing_replicas = removing_replicas


class OngoingTopicReassignment(Message):
    """An element of `topics` of ListPartitionReassignmentsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OngoingPartitionReassignment] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListPartitionReassignmentsResponse(Message):
    """The message ListPartitionReassignmentsResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListPartitionReassignmentsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListPartitionReassignmentsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListPartitionReassignmentsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
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
    topics_list: list[OngoingTopicReassignment] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 8:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[OngoingPartitionReassignment] = []
        for _ in range(t_elements):
            t_p_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("Replicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("Replicas is null", pos)
            t_p_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("AddingReplicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("AddingReplicas is null", pos)
            t_p_adding_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("RemovingReplicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("RemovingReplicas is null", pos)
            t_p_removing_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = OngoingPartitionReassignment(t_p_partition_index, t_p_replicas, t_p_adding_replicas, t_p_removing_replicas)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OngoingPartitionReassignment] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = OngoingTopicReassignment(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[OngoingTopicReassignment] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListPartitionReassignmentsResponse(throttle_time_ms, error_code, error_message, topics)
    return message


def _encode_flexible(out: bytearray, message: ListPartitionReassignmentsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
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
            out += _pack_i(t_p.partition_index)
            count = len(t_p.replicas) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.replicas)}i", *t_p.replicas)
            count = len(t_p.adding_replicas) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.adding_replicas)}i", *t_p.adding_replicas)
            count = len(t_p.removing_replicas) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.removing_replicas)}i", *t_p.removing_replicas)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
