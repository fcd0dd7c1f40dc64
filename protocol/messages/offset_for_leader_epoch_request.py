"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetForLeaderEpochRequest, key 23, versions 2-4."""

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

_unpack_i = Struct(">i").unpack_from
_unpack_iii = Struct(">iii").unpack_from
_pack_i = Struct(">i").pack
_pack_iii = Struct(">iii").pack
_pack_iiix = Struct(">iiix").pack


class OffsetForLeaderPartition(Message):
    """An element of `partitions` of OffsetForLeaderTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition", "current_leader_epoch", "leader_epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    """An element of `topics` of OffsetForLeaderEpochRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[OffsetForLeaderPartition] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochRequest(Message):
    """The message OffsetForLeaderEpochRequest, versions 2-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("replica_id", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        replica_id: int = -2,
        topics: Sequence[OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetForLeaderEpochRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetForLeaderEpochRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetForLeaderEpochRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 3:
        replica_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        replica_id = -2
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[OffsetForLeaderTopic] = []
    for _ in range(elements):
        t_topic, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 12:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[OffsetForLeaderPartition] = []
        for _ in range(t_elements):
            t_p_partition, t_p_current_leader_epoch, t_p_leader_epoch = _unpack_iii(buf, pos)
            pos += 12
            t_p = OffsetForLeaderPartition(t_p_partition, t_p_current_leader_epoch, t_p_leader_epoch)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetForLeaderPartition] = t_partitions_list
        t = OffsetForLeaderTopic(t_topic, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetForLeaderTopic] = topics_list
    message = OffsetForLeaderEpochRequest(replica_id, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetForLeaderEpochRequest, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.replica_id)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.topic)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iii(t_p.partition, t_p.current_leader_epoch, t_p.leader_epoch)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetForLeaderEpochRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    replica_id = _unpack_i(buf, pos)[0]
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
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[OffsetForLeaderTopic] = []
    for _ in range(elements):
        t_topic, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 13:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[OffsetForLeaderPartition] = []
        for _ in range(t_elements):
            t_p_partition, t_p_current_leader_epoch, t_p_leader_epoch = _unpack_iii(buf, pos)
            pos += 12
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = OffsetForLeaderPartition(t_p_partition, t_p_current_leader_epoch, t_p_leader_epoch)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetForLeaderPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = OffsetForLeaderTopic(t_topic, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetForLeaderTopic] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetForLeaderEpochRequest(replica_id, topics)
    return message


def _encode_flexible(out: bytearray, message: OffsetForLeaderEpochRequest, version: int) -> None:
    out += _pack_i(message.replica_id)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.topic)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_iiix(t_p.partition, t_p.current_leader_epoch, t_p.leader_epoch)
        out += b"\x00"
    out += b"\x00"
