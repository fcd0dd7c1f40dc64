"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetFetchResponse, key 9, versions 1-10."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_iqi = Struct(">iqi").unpack_from
_pack_u = Struct(">16s").pack
_pack_h = Struct(">h").pack
_pack_hx = Struct(">hx").pack
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack


class OffsetFetchResponsePartition(Message):
    """An element of `partitions` of OffsetFetchResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    """An element of `topics` of OffsetFetchResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetFetchResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetFetchResponsePartitions(Message):
    """An element of `partitions` of OffsetFetchResponseTopics."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    """An element of `topics` of OffsetFetchResponseGroup."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[OffsetFetchResponsePartitions] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class OffsetFetchResponseGroup(Message):
    """An element of `groups` of OffsetFetchResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "topics", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetFetchResponseTopics] = (),
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    """The message OffsetFetchResponse, versions 1-10."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics", "error_code", "groups")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetFetchResponseTopic] = (),
        error_code: int = 0,
        groups: Sequence[OffsetFetchResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.error_code = error_code
        self.groups = groups

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetFetchResponse:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetFetchResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetFetchResponse:
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
    topics_list: list[OffsetFetchResponseTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 16:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[OffsetFetchResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_committed_offset = _unpack_iq(buf, pos)
            pos += 12
            if version >= 5:
                t_p_committed_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_committed_leader_epoch = -1
            t_p_metadata, pos = read_nullable_string(buf, pos)
            t_p_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            t_p = OffsetFetchResponsePartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_metadata, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetFetchResponsePartition] = t_partitions_list
        t = OffsetFetchResponseTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetFetchResponseTopic] = topics_list
    if version >= 2:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    message = OffsetFetchResponse(throttle_time_ms, topics, error_code, ())
    return message


def _encode_classic(out: bytearray, message: OffsetFetchResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iq(t_p.partition_index, t_p.committed_offset)
            if version >= 5:
                out += _pack_i(t_p.committed_leader_epoch)
            write_nullable_string(out, t_p.metadata)
            out += _pack_h(t_p.error_code)
    if version >= 2:
        out += _pack_h(message.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetFetchResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version <= 7:
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
        topics_list: list[OffsetFetchResponseTopic] = []
        for _ in range(elements):
            t_name, pos = read_compact_string(buf, pos)
            t_elements = buf[pos]
            if t_elements > 127:
                t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_elements -= 1
            if t_elements > (end - pos) // 20:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            t_partitions_list: list[OffsetFetchResponsePartition] = []
            for _ in range(t_elements):
                t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch = _unpack_iqi(buf, pos)
                pos += 16
                t_p_metadata, pos = read_compact_nullable_string(buf, pos)
                t_p_error_code = _unpack_h(buf, pos)[0]
                pos += 2
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                t_p = OffsetFetchResponsePartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_metadata, t_p_error_code)
                t_partitions_list.append(t_p)
            t_partitions: Sequence[OffsetFetchResponsePartition] = t_partitions_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t = OffsetFetchResponseTopic(t_name, t_partitions)
            topics_list.append(t)
        topics: Sequence[OffsetFetchResponseTopic] = topics_list
    else:
        topics = ()
    if version <= 7:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    if version >= 8:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 5:
            raise DecodeError("Groups counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Groups is null", pos)
        groups_list: list[OffsetFetchResponseGroup] = []
        for _ in range(elements):
            g_group_id, pos = read_compact_string(buf, pos)
            g_elements = buf[pos]
            if g_elements > 127:
                g_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            g_elements -= 1
            if g_elements > (end - pos) // 2:
                raise DecodeError("Topics counts more elements than there are bytes", pos)
            if g_elements < 0:
                raise DecodeError("Topics is null", pos)
            g_topics_list: list[OffsetFetchResponseTopics] = []
            for _ in range(g_elements):
                if version <= 9:
                    g_t_name, pos = read_compact_string(buf, pos)
                else:
                    g_t_name = ""
                if version >= 10:
                    g_t_topic_id = _unpack_u(buf, pos)[0]
                    pos += 16
                else:
                    g_t_topic_id = ZERO_UUID
                g_t_elements = buf[pos]
                if g_t_elements > 127:
                    g_t_elements, pos = read_uvarint(buf, pos)
                else:
                    pos += 1
                g_t_elements -= 1
                if g_t_elements > (end - pos) // 20:
                    raise DecodeError("Partitions counts more elements than there are bytes", pos)
                if g_t_elements < 0:
                    raise DecodeError("Partitions is null", pos)
                g_t_partitions_list: list[OffsetFetchResponsePartitions] = []
                for _ in range(g_t_elements):
                    g_t_p_partition_index, g_t_p_committed_offset, g_t_p_committed_leader_epoch = _unpack_iqi(buf, pos)
                    pos += 16
                    g_t_p_metadata, pos = read_compact_nullable_string(buf, pos)
                    g_t_p_error_code = _unpack_h(buf, pos)[0]
                    pos += 2
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    g_t_p = OffsetFetchResponsePartitions(g_t_p_partition_index, g_t_p_committed_offset, g_t_p_committed_leader_epoch, g_t_p_metadata, g_t_p_error_code)
                    g_t_partitions_list.append(g_t_p)
                g_t_partitions: Sequence[OffsetFetchResponsePartitions] = g_t_partitions_list
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                g_t = OffsetFetchResponseTopics(g_t_name, g_t_topic_id, g_t_partitions)
                g_topics_list.append(g_t)
            g_topics: Sequence[OffsetFetchResponseTopics] = g_topics_list
            g_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            g = OffsetFetchResponseGroup(g_group_id, g_topics, g_error_code)
            groups_list.append(g)
        groups: Sequence[OffsetFetchResponseGroup] = groups_list
    else:
        groups = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetFetchResponse(throttle_time_ms, topics, error_code, groups)
    return message


def _encode_flexible(out: bytearray, message: OffsetFetchResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version <= 7:
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
                out += _pack_iqi(t_p.partition_index, t_p.committed_offset, t_p.committed_leader_epoch)
                if t_p.metadata is None:
                    out.append(0)
                else:
                    write_compact_string(out, t_p.metadata)
                out += _pack_hx(t_p.error_code)
            out += b"\x00"
    if version <= 7:
        out += _pack_h(message.error_code)
    if version >= 8:
        count = len(message.groups) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for g in message.groups:
            write_compact_string(out, g.group_id)
            count = len(g.topics) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for g_t in g.topics:
                if version <= 9:
                    write_compact_string(out, g_t.name)
                if version >= 10:
                    out += _pack_u(g_t.topic_id)
                count = len(g_t.partitions) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                for g_t_p in g_t.partitions:
                    out += _pack_iqi(g_t_p.partition_index, g_t_p.committed_offset, g_t_p.committed_leader_epoch)
                    if g_t_p.metadata is None:
                        out.append(0)
                    else:
                        write_compact_string(out, g_t_p.metadata)
                    out += _pack_hx(g_t_p.error_code)
                out += b"\x00"
            out += _pack_hx(g.error_code)
    out += b"\x00"
