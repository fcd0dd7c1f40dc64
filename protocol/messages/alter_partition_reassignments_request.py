"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterPartitionReassignmentsRequest, key 45, versions 0-1."""

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
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_i = Struct(">i").pack


class ReassignablePartition(Message):
    """An element of `partitions` of ReassignableTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "replicas")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Message):
    """An element of `topics` of AlterPartitionReassignmentsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsRequest(Message):
    """The message AlterPartitionReassignmentsRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("timeout_ms", "allow_replication_factor_change", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Sequence[ReassignableTopic] = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterPartitionReassignmentsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterPartitionReassignmentsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterPartitionReassignmentsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 1:
        allow_replication_factor_change = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        allow_replication_factor_change = True
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
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[ReassignableTopic] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 6:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[ReassignablePartition] = []
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
                t_p_replicas: Sequence[int] | None = None
            else:
                left -= t_p_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                t_p_replicas = list(unpack_from(f">{t_p_elements}i", buf, pos))
                pos += 4 * t_p_elements
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = ReassignablePartition(t_p_partition_index, t_p_replicas)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[ReassignablePartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = ReassignableTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[ReassignableTopic] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterPartitionReassignmentsRequest(timeout_ms, allow_replication_factor_change, topics)
    return message


def _encode_flexible(out: bytearray, message: AlterPartitionReassignmentsRequest, version: int) -> None:
    out += _pack_i(message.timeout_ms)
    if version >= 1:
        out += _pack_o(message.allow_replication_factor_change)
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
            if t_p.replicas is None:
                out += b"\x00"
            else:
                count = len(t_p.replicas) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(t_p.replicas)}i", *t_p.replicas)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
