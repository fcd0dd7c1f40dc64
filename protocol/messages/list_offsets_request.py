"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListOffsetsRequest, key 2, versions 1-11."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
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
_unpack_ib = Struct(">ib").unpack_from
_unpack_iiq = Struct(">iiq").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_ib = Struct(">ib").pack
_pack_iiqx = Struct(">iiqx").pack
_pack_q = Struct(">q").pack


class ListOffsetsPartition(Message):
    """An element of `partitions` of ListOffsetsTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "current_leader_epoch", "timestamp")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    """An element of `topics` of ListOffsetsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsRequest(Message):
    """The message ListOffsetsRequest, versions 1-11."""

    FIELDS: ClassVar[tuple[str, ...]] = ("replica_id", "isolation_level", "topics", "timeout_ms")
    __slots__ = FIELDS

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Sequence[ListOffsetsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListOffsetsRequest:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListOffsetsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ListOffsetsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    replica_id = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 2:
        isolation_level = _unpack_b(buf, pos)[0]
        pos += 1
    else:
        isolation_level = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[ListOffsetsTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 12:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[ListOffsetsPartition] = []
        for _ in range(t_elements):
            t_p_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
            if version >= 4:
                t_p_current_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_current_leader_epoch = -1
            t_p_timestamp = _unpack_q(buf, pos)[0]
            pos += 8
            t_p = ListOffsetsPartition(t_p_partition_index, t_p_current_leader_epoch, t_p_timestamp)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[ListOffsetsPartition] = t_partitions_list
        t = ListOffsetsTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[ListOffsetsTopic] = topics_list
    message = ListOffsetsRequest(replica_id, isolation_level, topics, 0)
    return message


def _encode_classic(out: bytearray, message: ListOffsetsRequest, version: int) -> None:
    out += _pack_i(message.replica_id)
    if version >= 2:
        out += _pack_b(message.isolation_level)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_i(t_p.partition_index)
            if version >= 4:
                out += _pack_i(t_p.current_leader_epoch)
            out += _pack_q(t_p.timestamp)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListOffsetsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    replica_id, isolation_level = _unpack_ib(buf, pos)
    pos += 5
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
    topics_list: list[ListOffsetsTopic] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 17:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[ListOffsetsPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_current_leader_epoch, t_p_timestamp = _unpack_iiq(buf, pos)
            pos += 16
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = ListOffsetsPartition(t_p_partition_index, t_p_current_leader_epoch, t_p_timestamp)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[ListOffsetsPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = ListOffsetsTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[ListOffsetsTopic] = topics_list
    if version >= 10:
        timeout_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        timeout_ms = 0
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)
    return message


def _encode_flexible(out: bytearray, message: ListOffsetsRequest, version: int) -> None:
    out += _pack_ib(message.replica_id, message.isolation_level)
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
            out += _pack_iiqx(t_p.partition_index, t_p.current_leader_epoch, t_p.timestamp)
        out += b"\x00"
    if version >= 10:
        out += _pack_i(message.timeout_ms)
    out += b"\x00"
