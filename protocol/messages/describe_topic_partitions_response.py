"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeTopicPartitionsResponse, key 75, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_uo = Struct(">16s?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_hiii = Struct(">hiii").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_uo = Struct(">16s?").pack
_pack_h = Struct(">h").pack
_pack_hiii = Struct(">hiii").pack
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class DescribeTopicPartitionsResponsePartition(Message):
    """An element of `partitions` of DescribeTopicPartitionsResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    """An element of `topics` of DescribeTopicPartitionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: Sequence[DescribeTopicPartitionsResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class Cursor(Message):
    """`next_cursor` of DescribeTopicPartitionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_name", "partition_index")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(Message):
    """The message DescribeTopicPartitionsResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics", "next_cursor")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeTopicPartitionsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeTopicPartitionsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeTopicPartitionsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 26:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[DescribeTopicPartitionsResponseTopic] = []
    for _ in range(elements):
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_name, pos = read_compact_nullable_string(buf, pos)
        t_topic_id, t_is_internal = _unpack_uo(buf, pos)
        pos += 17
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
        t_partitions_list: list[DescribeTopicPartitionsResponsePartition] = []
        for _ in range(t_elements):
            t_p_error_code, t_p_partition_index, t_p_leader_id, t_p_leader_epoch = _unpack_hiii(buf, pos)
            pos += 14
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("ReplicaNodes counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("ReplicaNodes is null", pos)
            t_p_replica_nodes: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("IsrNodes counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("IsrNodes is null", pos)
            t_p_isr_nodes: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("EligibleLeaderReplicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                t_p_eligible_leader_replicas: Sequence[int] | None = None
            else:
                t_p_eligible_leader_replicas = list(unpack_from(f">{t_p_elements}i", buf, pos))
                pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("LastKnownElr counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                t_p_last_known_elr: Sequence[int] | None = None
            else:
                t_p_last_known_elr = list(unpack_from(f">{t_p_elements}i", buf, pos))
                pos += 4 * t_p_elements
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("OfflineReplicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("OfflineReplicas is null", pos)
            t_p_offline_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = DescribeTopicPartitionsResponsePartition(t_p_error_code, t_p_partition_index, t_p_leader_id, t_p_leader_epoch, t_p_replica_nodes, t_p_isr_nodes, t_p_eligible_leader_replicas, t_p_last_known_elr, t_p_offline_replicas)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[DescribeTopicPartitionsResponsePartition] = t_partitions_list
        t_topic_authorized_operations = _unpack_i(buf, pos)[0]
        pos += 4
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = DescribeTopicPartitionsResponseTopic(t_error_code, t_name, t_topic_id, t_is_internal, t_partitions, t_topic_authorized_operations)
        topics_list.append(t)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = topics_list
    pos += 1
    if buf[pos - 1] < 128:
        n_topic_name, pos = read_compact_string(buf, pos)
        n_partition_index = _unpack_i(buf, pos)[0]
        pos += 4
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        next_cursor: Cursor | None = Cursor(n_topic_name, n_partition_index)
    else:
        next_cursor = None
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeTopicPartitionsResponse(throttle_time_ms, topics, next_cursor)
    return message


def _encode_flexible(out: bytearray, message: DescribeTopicPartitionsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        out += _pack_h(t.error_code)
        if t.name is None:
            out.append(0)
        else:
            write_compact_string(out, t.name)
        out += _pack_uo(t.topic_id, t.is_internal)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_hiii(t_p.error_code, t_p.partition_index, t_p.leader_id, t_p.leader_epoch)
            count = len(t_p.replica_nodes) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.replica_nodes)}i", *t_p.replica_nodes)
            count = len(t_p.isr_nodes) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.isr_nodes)}i", *t_p.isr_nodes)
            if t_p.eligible_leader_replicas is None:
                out += b"\x00"
            else:
                count = len(t_p.eligible_leader_replicas) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(t_p.eligible_leader_replicas)}i", *t_p.eligible_leader_replicas)
            if t_p.last_known_elr is None:
                out += b"\x00"
            else:
                count = len(t_p.last_known_elr) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(t_p.last_known_elr)}i", *t_p.last_known_elr)
            count = len(t_p.offline_replicas) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.offline_replicas)}i", *t_p.offline_replicas)
            out += b"\x00"
        out += _pack_ix(t.topic_authorized_operations)
    if message.next_cursor is None:
        out += b"\xff"
    else:
        out += b"\x01"
        write_compact_string(out, message.next_cursor.topic_name)
        out += _pack_ix(message.next_cursor.partition_index)
    out += b"\x00"
