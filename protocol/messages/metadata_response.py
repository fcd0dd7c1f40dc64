"""GENERATED from tools/schemas by tools/generate.py (`make generate`): MetadataResponse, key 3, versions 0-13."""

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
_unpack_o = Struct(">?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_hii = Struct(">hii").unpack_from
_unpack_hiii = Struct(">hiii").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_u = Struct(">16s").pack
_pack_o = Struct(">?").pack
_pack_h = Struct(">h").pack
_pack_hii = Struct(">hii").pack
_pack_hiii = Struct(">hiii").pack
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class MetadataResponseBroker(Message):
    """An element of `brokers` of MetadataResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("node_id", "host", "port", "rack")
    __slots__ = FIELDS

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Message):
    """An element of `partitions` of MetadataResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.offline_replicas = offline_replicas


class MetadataResponseTopic(Message):
    """An element of `topics` of MetadataResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: Sequence[MetadataResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Message):
    """The message MetadataResponse, versions 0-13."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: Sequence[MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Sequence[MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> MetadataResponse:
        try:
            if version >= 9:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("MetadataResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 9:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> MetadataResponse:
    end = len(buf)
    if version >= 3:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 10:
        raise DecodeError("Brokers counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Brokers is null", pos)
    brokers_list: list[MetadataResponseBroker] = []
    for _ in range(elements):
        b_node_id = _unpack_i(buf, pos)[0]
        pos += 4
        b_host, pos = read_string(buf, pos)
        b_port = _unpack_i(buf, pos)[0]
        pos += 4
        if version >= 1:
            b_rack, pos = read_nullable_string(buf, pos)
        else:
            b_rack = None
        b = MetadataResponseBroker(b_node_id, b_host, b_port, b_rack)
        brokers_list.append(b)
    brokers: Sequence[MetadataResponseBroker] = brokers_list
    if version >= 2:
        cluster_id, pos = read_nullable_string(buf, pos)
    else:
        cluster_id = None
    if version >= 1:
        controller_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        controller_id = -1
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[MetadataResponseTopic] = []
    for _ in range(elements):
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_name, pos = read_string(buf, pos)
        if version >= 1:
            t_is_internal = _unpack_o(buf, pos)[0]
            pos += 1
        else:
            t_is_internal = False
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 18:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[MetadataResponsePartition] = []
        for _ in range(t_elements):
            t_p_error_code, t_p_partition_index, t_p_leader_id = _unpack_hii(buf, pos)
            pos += 10
            if version >= 7:
                t_p_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_leader_epoch = -1
            t_p_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("ReplicaNodes counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("ReplicaNodes is null", pos)
            t_p_replica_nodes: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            t_p_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if t_p_elements > (end - pos) // 4:
                raise DecodeError("IsrNodes counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("IsrNodes is null", pos)
            t_p_isr_nodes: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            if version >= 5:
                t_p_elements = _unpack_i(buf, pos)[0]
                pos += 4
                if t_p_elements > (end - pos) // 4:
                    raise DecodeError("OfflineReplicas counts more elements than there are bytes", pos)
                if t_p_elements < 0:
                    raise DecodeError("OfflineReplicas is null", pos)
                t_p_offline_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
                pos += 4 * t_p_elements
            else:
                t_p_offline_replicas = ()
            t_p = MetadataResponsePartition(t_p_error_code, t_p_partition_index, t_p_leader_id, t_p_leader_epoch, t_p_replica_nodes, t_p_isr_nodes, t_p_offline_replicas)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[MetadataResponsePartition] = t_partitions_list
        if version >= 8:
            t_topic_authorized_operations = _unpack_i(buf, pos)[0]
            pos += 4
        else:
            t_topic_authorized_operations = -2147483648
        t = MetadataResponseTopic(t_error_code, t_name, ZERO_UUID, t_is_internal, t_partitions, t_topic_authorized_operations)
        topics_list.append(t)
    topics: Sequence[MetadataResponseTopic] = topics_list
    if version >= 8:
        cluster_authorized_operations = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        cluster_authorized_operations = -2147483648
    message = MetadataResponse(throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, 0)
    return message


def _encode_classic(out: bytearray, message: MetadataResponse, version: int) -> None:
    if version >= 3:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.brokers))
    for b in message.brokers:
        out += _pack_i(b.node_id)
        write_string(out, b.host)
        out += _pack_i(b.port)
        if version >= 1:
            write_nullable_string(out, b.rack)
    if version >= 2:
        write_nullable_string(out, message.cluster_id)
    if version >= 1:
        out += _pack_i(message.controller_id)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        out += _pack_h(t.error_code)
        if t.name is None:
            raise ValueError(f"Name cannot be null in version {version}")
        write_string(out, t.name)
        if version >= 1:
            out += _pack_o(t.is_internal)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_hii(t_p.error_code, t_p.partition_index, t_p.leader_id)
            if version >= 7:
                out += _pack_i(t_p.leader_epoch)
            out += _pack_i(len(t_p.replica_nodes))
            out += struct_pack(f">{len(t_p.replica_nodes)}i", *t_p.replica_nodes)
            out += _pack_i(len(t_p.isr_nodes))
            out += struct_pack(f">{len(t_p.isr_nodes)}i", *t_p.isr_nodes)
            if version >= 5:
                out += _pack_i(len(t_p.offline_replicas))
                out += struct_pack(f">{len(t_p.offline_replicas)}i", *t_p.offline_replicas)
        if version >= 8:
            out += _pack_i(t.topic_authorized_operations)
    if version >= 8:
        out += _pack_i(message.cluster_authorized_operations)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> MetadataResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 11:
        raise DecodeError("Brokers counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Brokers is null", pos)
    brokers_list: list[MetadataResponseBroker] = []
    for _ in range(elements):
        b_node_id = _unpack_i(buf, pos)[0]
        pos += 4
        b_host, pos = read_compact_string(buf, pos)
        b_port = _unpack_i(buf, pos)[0]
        pos += 4
        b_rack, pos = read_compact_nullable_string(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        b = MetadataResponseBroker(b_node_id, b_host, b_port, b_rack)
        brokers_list.append(b)
    brokers: Sequence[MetadataResponseBroker] = brokers_list
    cluster_id, pos = read_compact_nullable_string(buf, pos)
    controller_id = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 10:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[MetadataResponseTopic] = []
    for _ in range(elements):
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_name, pos = read_compact_nullable_string(buf, pos)
        if t_name is None and version < 12:
            raise DecodeError("Name is null", pos)
        if version >= 10:
            t_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            t_topic_id = ZERO_UUID
        t_is_internal = _unpack_o(buf, pos)[0]
        pos += 1
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
        t_partitions_list: list[MetadataResponsePartition] = []
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
                raise DecodeError("OfflineReplicas counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("OfflineReplicas is null", pos)
            t_p_offline_replicas: Sequence[int] = list(unpack_from(f">{t_p_elements}i", buf, pos))
            pos += 4 * t_p_elements
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = MetadataResponsePartition(t_p_error_code, t_p_partition_index, t_p_leader_id, t_p_leader_epoch, t_p_replica_nodes, t_p_isr_nodes, t_p_offline_replicas)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[MetadataResponsePartition] = t_partitions_list
        t_topic_authorized_operations = _unpack_i(buf, pos)[0]
        pos += 4
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = MetadataResponseTopic(t_error_code, t_name, t_topic_id, t_is_internal, t_partitions, t_topic_authorized_operations)
        topics_list.append(t)
    topics: Sequence[MetadataResponseTopic] = topics_list
    if version <= 10:
        cluster_authorized_operations = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        cluster_authorized_operations = -2147483648
    if version >= 13:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = MetadataResponse(throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, error_code)
    return message


def _encode_flexible(out: bytearray, message: MetadataResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.brokers) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for b in message.brokers:
        out += _pack_i(b.node_id)
        write_compact_string(out, b.host)
        out += _pack_i(b.port)
        if b.rack is None:
            out.append(0)
        else:
            write_compact_string(out, b.rack)
        out += b"\x00"
    if message.cluster_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.cluster_id)
    out += _pack_i(message.controller_id)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        out += _pack_h(t.error_code)
        if t.name is None and version < 12:
            raise ValueError(f"Name cannot be null in version {version}")
        if t.name is None:
            out.append(0)
        else:
            write_compact_string(out, t.name)
        if version >= 10:
            out += _pack_u(t.topic_id)
        out += _pack_o(t.is_internal)
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
            count = len(t_p.offline_replicas) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_p.offline_replicas)}i", *t_p.offline_replicas)
            out += b"\x00"
        out += _pack_ix(t.topic_authorized_operations)
    if version <= 10:
        out += _pack_i(message.cluster_authorized_operations)
    if version >= 13:
        out += _pack_h(message.error_code)
    out += b"\x00"
