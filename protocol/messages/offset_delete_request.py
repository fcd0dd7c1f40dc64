"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetDeleteRequest, key 47, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_string,
    write_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class OffsetDeleteRequestPartition(Message):
    """An element of `partitions` of OffsetDeleteRequestTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index",)
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Message):
    """An element of `topics` of OffsetDeleteRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteRequest(Message):
    """The message OffsetDeleteRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetDeleteRequest:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetDeleteRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetDeleteRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[OffsetDeleteRequestTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 4:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[OffsetDeleteRequestPartition] = []
        for _ in range(t_elements):
            t_p_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
            t_p = OffsetDeleteRequestPartition(t_p_partition_index)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetDeleteRequestPartition] = t_partitions_list
        t = OffsetDeleteRequestTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetDeleteRequestTopic] = topics_list
    message = OffsetDeleteRequest(group_id, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetDeleteRequest, version: int) -> None:
    write_string(out, message.group_id)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_i(t_p.partition_index)
