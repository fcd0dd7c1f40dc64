"""GENERATED from tools/schemas by tools/generate.py (`make generate`): MetadataRequest, key 3, versions 0-13."""

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
_unpack_oo = Struct(">??").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_u = Struct(">16s").pack
_pack_o = Struct(">?").pack
_pack_oo = Struct(">??").pack
_pack_ox = Struct(">?x").pack
_pack_i = Struct(">i").pack


class MetadataRequestTopic(Message):
    """An element of `topics` of MetadataRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_id", "name")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Message):
    """The message MetadataRequest, versions 0-13."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> MetadataRequest:
        try:
            if version >= 9:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("MetadataRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 9:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> MetadataRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        topics: Sequence[MetadataRequestTopic] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[MetadataRequestTopic] = []
        for _ in range(elements):
            t_name, pos = read_string(buf, pos)
            t = MetadataRequestTopic(ZERO_UUID, t_name)
            topics_list.append(t)
        topics = topics_list
    if topics is None and version < 1:
        raise DecodeError("Topics is null", pos)
    if version >= 4:
        allow_auto_topic_creation = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        allow_auto_topic_creation = True
    if version >= 8:
        include_cluster_authorized_operations, include_topic_authorized_operations = _unpack_oo(buf, pos)
        pos += 2
    else:
        include_cluster_authorized_operations = False
        include_topic_authorized_operations = False
    message = MetadataRequest(topics, allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations)
    return message


def _encode_classic(out: bytearray, message: MetadataRequest, version: int) -> None:
    if message.topics is None and version < 1:
        raise ValueError(f"Topics cannot be null in version {version}")
    if message.topics is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_i(len(message.topics))
        for t in message.topics:
            if t.name is None:
                raise ValueError(f"Name cannot be null in version {version}")
            write_string(out, t.name)
    if version >= 4:
        out += _pack_o(message.allow_auto_topic_creation)
    if version >= 8:
        out += _pack_oo(message.include_cluster_authorized_operations, message.include_topic_authorized_operations)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> MetadataRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        topics: Sequence[MetadataRequestTopic] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[MetadataRequestTopic] = []
        for _ in range(elements):
            if version >= 10:
                t_topic_id = _unpack_u(buf, pos)[0]
                pos += 16
            else:
                t_topic_id = ZERO_UUID
            t_name, pos = read_compact_nullable_string(buf, pos)
            if t_name is None and version < 10:
                raise DecodeError("Name is null", pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t = MetadataRequestTopic(t_topic_id, t_name)
            topics_list.append(t)
        topics = topics_list
    allow_auto_topic_creation = _unpack_o(buf, pos)[0]
    pos += 1
    if version <= 10:
        include_cluster_authorized_operations = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        include_cluster_authorized_operations = False
    include_topic_authorized_operations = _unpack_o(buf, pos)[0]
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = MetadataRequest(topics, allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations)
    return message


def _encode_flexible(out: bytearray, message: MetadataRequest, version: int) -> None:
    if message.topics is None:
        out += b"\x00"
    else:
        count = len(message.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.topics:
            if version >= 10:
                out += _pack_u(t.topic_id)
            if t.name is None and version < 10:
                raise ValueError(f"Name cannot be null in version {version}")
            if t.name is None:
                out.append(0)
            else:
                write_compact_string(out, t.name)
            out += b"\x00"
    out += _pack_o(message.allow_auto_topic_creation)
    if version <= 10:
        out += _pack_o(message.include_cluster_authorized_operations)
    out += _pack_ox(message.include_topic_authorized_operations)
