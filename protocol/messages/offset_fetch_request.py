"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetFetchRequest, key 9, versions 1-10."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_o = Struct(">?").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_u = Struct(">16s").pack
_pack_o = Struct(">?").pack
_pack_i = Struct(">i").pack


class OffsetFetchRequestTopic(Message):
    """An element of `topics` of OffsetFetchRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partition_indexes")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class OffsetFetchRequestTopics(Message):
    """An element of `topics` of OffsetFetchRequestGroup."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partition_indexes")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = partition_indexes


class OffsetFetchRequestGroup(Message):
    """An element of `groups` of OffsetFetchRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "member_id", "member_epoch", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: Sequence[OffsetFetchRequestTopics] | None = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(Message):
    """The message OffsetFetchRequest, versions 1-10."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "topics", "groups", "require_stable")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetFetchRequestTopic] | None = (),
        groups: Sequence[OffsetFetchRequestGroup] = (),
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = groups
        self.require_stable = require_stable

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetFetchRequest:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetFetchRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetFetchRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        topics: Sequence[OffsetFetchRequestTopic] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[OffsetFetchRequestTopic] = []
        for _ in range(elements):
            t_name, pos = read_string(buf, pos)
            t_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if t_elements > (end - pos) // 4:
                raise DecodeError("PartitionIndexes counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("PartitionIndexes is null", pos)
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partition_indexes: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
            pos += 4 * t_elements
            t = OffsetFetchRequestTopic(t_name, t_partition_indexes)
            topics_list.append(t)
        topics = topics_list
    if topics is None and version < 2:
        raise DecodeError("Topics is null", pos)
    message = OffsetFetchRequest(group_id, topics, (), False)
    return message


def _encode_classic(out: bytearray, message: OffsetFetchRequest, version: int) -> None:
    write_string(out, message.group_id)
    if message.topics is None and version < 2:
        raise ValueError(f"Topics cannot be null in version {version}")
    if message.topics is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_i(len(message.topics))
        for t in message.topics:
            write_string(out, t.name)
            out += _pack_i(len(t.partition_indexes))
            out += struct_pack(f">{len(t.partition_indexes)}i", *t.partition_indexes)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetFetchRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version <= 7:
        group_id, pos = read_compact_string(buf, pos)
    else:
        group_id = ""
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
            topics: Sequence[OffsetFetchRequestTopic] | None = None
        else:
            left -= elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            topics_list: list[OffsetFetchRequestTopic] = []
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
                t = OffsetFetchRequestTopic(t_name, t_partition_indexes)
                topics_list.append(t)
            topics = topics_list
    else:
        topics = ()
    if version >= 8:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 3:
            raise DecodeError("Groups counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Groups is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        groups_list: list[OffsetFetchRequestGroup] = []
        for _ in range(elements):
            g_group_id, pos = read_compact_string(buf, pos)
            if version >= 9:
                g_member_id, pos = read_compact_nullable_string(buf, pos)
            else:
                g_member_id = None
            if version >= 9:
                g_member_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                g_member_epoch = -1
            g_elements = buf[pos]
            if g_elements > 127:
                g_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            g_elements -= 1
            if g_elements > (end - pos) // 2:
                raise DecodeError("Topics counts more elements than there are bytes", pos)
            if g_elements < 0:
                g_topics: Sequence[OffsetFetchRequestTopics] | None = None
            else:
                left -= g_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                g_topics_list: list[OffsetFetchRequestTopics] = []
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
                    if g_t_elements > (end - pos) // 4:
                        raise DecodeError("PartitionIndexes counts more elements than there are bytes", pos)
                    if g_t_elements < 0:
                        raise DecodeError("PartitionIndexes is null", pos)
                    left -= g_t_elements
                    if left < 0:
                        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                    g_t_partition_indexes: Sequence[int] = list(unpack_from(f">{g_t_elements}i", buf, pos))
                    pos += 4 * g_t_elements
                    if buf[pos]:
                        pos, left = skip_counted_tags(buf, pos, left)
                    else:
                        pos += 1
                    g_t = OffsetFetchRequestTopics(g_t_name, g_t_topic_id, g_t_partition_indexes)
                    g_topics_list.append(g_t)
                g_topics = g_topics_list
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            g = OffsetFetchRequestGroup(g_group_id, g_member_id, g_member_epoch, g_topics)
            groups_list.append(g)
        groups: Sequence[OffsetFetchRequestGroup] = groups_list
    else:
        groups = ()
    if version >= 7:
        require_stable = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        require_stable = False
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetFetchRequest(group_id, topics, groups, require_stable)
    return message


def _encode_flexible(out: bytearray, message: OffsetFetchRequest, version: int) -> None:
    if version <= 7:
        write_compact_string(out, message.group_id)
    if version <= 7:
        if message.topics is None:
            out += b"\x00"
        else:
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
    if version >= 8:
        count = len(message.groups) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for g in message.groups:
            write_compact_string(out, g.group_id)
            if version >= 9:
                if g.member_id is None:
                    out.append(0)
                else:
                    write_compact_string(out, g.member_id)
            if version >= 9:
                out += _pack_i(g.member_epoch)
            if g.topics is None:
                out += b"\x00"
            else:
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
                    count = len(g_t.partition_indexes) + 1
                    if count > 127:
                        write_uvarint(out, count)
                    else:
                        out.append(count)
                    out += struct_pack(f">{len(g_t.partition_indexes)}i", *g_t.partition_indexes)
                    out += b"\x00"
            out += b"\x00"
    if version >= 7:
        out += _pack_o(message.require_stable)
    out += b"\x00"
