"""GENERATED from tools/schemas by tools/generate.py (`make generate`): TxnOffsetCommitRequest, key 28, versions 0-6."""

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
_unpack_qh = Struct(">qh").unpack_from
_unpack_qhi = Struct(">qhi").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqi = Struct(">iqi").pack
_pack_qh = Struct(">qh").pack
_pack_qhi = Struct(">qhi").pack


class TxnOffsetCommitRequestPartition(Message):
    """An element of `partitions` of TxnOffsetCommitRequestTopic."""

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


class TxnOffsetCommitRequestTopic(Message):
    """An element of `topics` of TxnOffsetCommitRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[TxnOffsetCommitRequestPartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class TxnOffsetCommitRequest(Message):
    """The message TxnOffsetCommitRequest, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id_or_member_epoch", "member_id", "group_instance_id", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> TxnOffsetCommitRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("TxnOffsetCommitRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> TxnOffsetCommitRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    transactional_id, pos = read_string(buf, pos)
    group_id, pos = read_string(buf, pos)
    producer_id, producer_epoch = _unpack_qh(buf, pos)
    pos += 10
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[TxnOffsetCommitRequestTopic] = []
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
        t_partitions_list: list[TxnOffsetCommitRequestPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_committed_offset = _unpack_iq(buf, pos)
            pos += 12
            if version >= 2:
                t_p_committed_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_committed_leader_epoch = -1
            t_p_committed_metadata, pos = read_nullable_string(buf, pos)
            t_p = TxnOffsetCommitRequestPartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_committed_metadata)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[TxnOffsetCommitRequestPartition] = t_partitions_list
        t = TxnOffsetCommitRequestTopic(t_name, ZERO_UUID, t_partitions)
        topics_list.append(t)
    topics: Sequence[TxnOffsetCommitRequestTopic] = topics_list
    message = TxnOffsetCommitRequest(transactional_id, group_id, producer_id, producer_epoch, -1, "", None, topics)
    return message


def _encode_classic(out: bytearray, message: TxnOffsetCommitRequest, version: int) -> None:
    write_string(out, message.transactional_id)
    write_string(out, message.group_id)
    out += _pack_qh(message.producer_id, message.producer_epoch)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iq(t_p.partition_index, t_p.committed_offset)
            if version >= 2:
                out += _pack_i(t_p.committed_leader_epoch)
            write_nullable_string(out, t_p.committed_metadata)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> TxnOffsetCommitRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    transactional_id, pos = read_compact_string(buf, pos)
    group_id, pos = read_compact_string(buf, pos)
    producer_id, producer_epoch, generation_id_or_member_epoch = _unpack_qhi(buf, pos)
    pos += 14
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
    topics_list: list[TxnOffsetCommitRequestTopic] = []
    for _ in range(elements):
        if version <= 5:
            t_name, pos = read_compact_string(buf, pos)
        else:
            t_name = ""
        if version >= 6:
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
        t_partitions_list: list[TxnOffsetCommitRequestPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch = _unpack_iqi(buf, pos)
            pos += 16
            t_p_committed_metadata, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = TxnOffsetCommitRequestPartition(t_p_partition_index, t_p_committed_offset, t_p_committed_leader_epoch, t_p_committed_metadata)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[TxnOffsetCommitRequestPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = TxnOffsetCommitRequestTopic(t_name, t_topic_id, t_partitions)
        topics_list.append(t)
    topics: Sequence[TxnOffsetCommitRequestTopic] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = TxnOffsetCommitRequest(transactional_id, group_id, producer_id, producer_epoch, generation_id_or_member_epoch, member_id, group_instance_id, topics)
    return message


def _encode_flexible(out: bytearray, message: TxnOffsetCommitRequest, version: int) -> None:
    write_compact_string(out, message.transactional_id)
    write_compact_string(out, message.group_id)
    out += _pack_qhi(message.producer_id, message.producer_epoch, message.generation_id_or_member_epoch)
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
        if version <= 5:
            write_compact_string(out, t.name)
        if version >= 6:
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
