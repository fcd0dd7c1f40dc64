"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetCommitRequest, key 8, versions 2-10."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqi = Struct(">iqi").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_q = Struct(">q").pack


class OffsetCommitRequestPartition(Message):
    """An element of `partitions` of OffsetCommitRequestTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Message):
    """An element of `topics` of OffsetCommitRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[OffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetCommitRequest(Message):
    """The message OffsetCommitRequest, versions 2-10."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: Sequence[OffsetCommitRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetCommitRequest:
        try:
            if version >= 8:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetCommitRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 8:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetCommitRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    generation_id_or_member_epoch = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_string(buf, pos)
    if version >= 7:
        group_instance_id, pos = read_nullable_string(buf, pos)
    else:
        group_instance_id = None
    if version <= 4:
        retention_time_ms = _unpack_q(buf, pos)[0]
        pos += 8
    else:
        retention_time_ms = -1
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[OffsetCommitRequestTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 14:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[OffsetCommitRequestPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_committed_offset = _unpack_iq(buf, pos)
            pos += 12
            if version >= 6:
                t_p_committed_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_committed_leader_epoch = -1
            t_p_committed_metadata, pos = read_nullable_string(buf, pos)
            t_p = OffsetCommitRequestPartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_committed_metadata)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetCommitRequestPartition] = t_partitions_list
        t = OffsetCommitRequestTopic(t_name, ZERO_UUID, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetCommitRequestTopic] = topics_list
    message = OffsetCommitRequest(group_id, generation_id_or_member_epoch, member_id, group_instance_id, retention_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetCommitRequest, version: int) -> None:
    write_string(out, message.group_id)
    out += _pack_i(message.generation_id_or_member_epoch)
    write_string(out, message.member_id)
    if version >= 7:
        write_nullable_string(out, message.group_instance_id)
    if version <= 4:
        out += _pack_q(message.retention_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iq(t_p.partition_index, t_p.committed_offset)
            if version >= 6:
                out += _pack_i(t_p.committed_leader_epoch)
            write_nullable_string(out, t_p.committed_metadata)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetCommitRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_compact_string(buf, pos)
    generation_id_or_member_epoch = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_compact_string(buf, pos)
    group_instance_id, pos = read_compact_nullable_string(buf, pos)
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
    topics_list: list[OffsetCommitRequestTopic] = []
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
        if t_elements > (end - pos) // 18:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[OffsetCommitRequestPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch = _unpack_iqi(buf, pos)
            pos += 16
            t_p_committed_metadata, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = OffsetCommitRequestPartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_committed_metadata)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetCommitRequestPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = OffsetCommitRequestTopic(t_name, t_topic_id, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetCommitRequestTopic] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetCommitRequest(group_id, generation_id_or_member_epoch, member_id, group_instance_id, -1, topics)
    return message


def _encode_flexible(out: bytearray, message: OffsetCommitRequest, version: int) -> None:
    write_compact_string(out, message.group_id)
    out += _pack_i(message.generation_id_or_member_epoch)
    write_compact_string(out, message.member_id)
    if message.group_instance_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.group_instance_id)
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
            out += _pack_iqi(t_p.partition_index, t_p.committed_offset, t_p.committed_leader_epoch)
            if t_p.committed_metadata is None:
                out.append(0)
            else:
                write_compact_string(out, t_p.committed_metadata)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
