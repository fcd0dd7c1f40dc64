"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeQuorumResponse, key 55, versions 0-2."""

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
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_H = Struct(">H").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_iiq = Struct(">iiq").unpack_from
_unpack_q = Struct(">q").unpack_from
_unpack_qq = Struct(">qq").unpack_from
_pack_u = Struct(">16s").pack
_pack_Hx = Struct(">Hx").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_iiq = Struct(">iiq").pack
_pack_q = Struct(">q").pack
_pack_qq = Struct(">qq").pack


class ReplicaState(Message):
    """An element of `current_voters` of PartitionData, `observers` of PartitionData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp")
    __slots__ = FIELDS

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class PartitionData(Message):
    """An element of `partitions` of TopicData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark", "current_voters", "observers")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: Sequence[ReplicaState] = (),
        observers: Sequence[ReplicaState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = current_voters
        self.observers = observers


class TopicData(Message):
    """An element of `topics` of DescribeQuorumResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class Listener(Message):
    """An element of `listeners` of Node."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "host", "port")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(Message):
    """An element of `nodes` of DescribeQuorumResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("node_id", "listeners")
    __slots__ = FIELDS

    def __init__(
        self,
        node_id: int = 0,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.node_id = node_id
        self.listeners = listeners


class DescribeQuorumResponse(Message):
    """The message DescribeQuorumResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "topics", "nodes")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[TopicData] = (),
        nodes: Sequence[Node] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
        self.nodes = nodes

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeQuorumResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeQuorumResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeQuorumResponse:
    end = len(buf)
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    if version >= 2:
        error_message, pos = read_compact_nullable_string(buf, pos)
    else:
        error_message = ""
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
    topics_list: list[TopicData] = []
    for _ in range(elements):
        t_topic_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 25:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[PartitionData] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            if version >= 2:
                t_p_error_message, pos = read_compact_nullable_string(buf, pos)
            else:
                t_p_error_message = ""
            t_p_leader_id, t_p_leader_epoch, t_p_high_watermark = _unpack_iiq(buf, pos)
            pos += 16
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 13:
                raise DecodeError("CurrentVoters counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("CurrentVoters is null", pos)
            t_p_current_voters_list: list[ReplicaState] = []
            for _ in range(t_p_elements):
                t_p_c_replica_id = _unpack_i(buf, pos)[0]
                pos += 4
                if version >= 2:
                    t_p_c_replica_directory_id = _unpack_u(buf, pos)[0]
                    pos += 16
                else:
                    t_p_c_replica_directory_id = ZERO_UUID
                t_p_c_log_end_offset = _unpack_q(buf, pos)[0]
                pos += 8
                if version >= 1:
                    t_p_c_last_fetch_timestamp, t_p_c_last_caught_up_timestamp = _unpack_qq(buf, pos)
                    pos += 16
                else:
                    t_p_c_last_fetch_timestamp = -1
                    t_p_c_last_caught_up_timestamp = -1
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                t_p_c = ReplicaState(t_p_c_replica_id, t_p_c_replica_directory_id, t_p_c_log_end_offset, t_p_c_last_fetch_timestamp, t_p_c_last_caught_up_timestamp)
                t_p_current_voters_list.append(t_p_c)
            t_p_current_voters: Sequence[ReplicaState] = t_p_current_voters_list
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 13:
                raise DecodeError("Observers counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("Observers is null", pos)
            t_p_observers_list: list[ReplicaState] = []
            for _ in range(t_p_elements):
                t_p_o_replica_id = _unpack_i(buf, pos)[0]
                pos += 4
                if version >= 2:
                    t_p_o_replica_directory_id = _unpack_u(buf, pos)[0]
                    pos += 16
                else:
                    t_p_o_replica_directory_id = ZERO_UUID
                t_p_o_log_end_offset = _unpack_q(buf, pos)[0]
                pos += 8
                if version >= 1:
                    t_p_o_last_fetch_timestamp, t_p_o_last_caught_up_timestamp = _unpack_qq(buf, pos)
                    pos += 16
                else:
                    t_p_o_last_fetch_timestamp = -1
                    t_p_o_last_caught_up_timestamp = -1
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                t_p_o = ReplicaState(t_p_o_replica_id, t_p_o_replica_directory_id, t_p_o_log_end_offset, t_p_o_last_fetch_timestamp, t_p_o_last_caught_up_timestamp)
                t_p_observers_list.append(t_p_o)
            t_p_observers: Sequence[ReplicaState] = t_p_observers_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = PartitionData(t_p_partition_index, t_p_error_code, t_p_error_message, t_p_leader_id, t_p_leader_epoch, t_p_high_watermark, t_p_current_voters, t_p_observers)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[PartitionData] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = TopicData(t_topic_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[TopicData] = topics_list
    if version >= 2:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 6:
            raise DecodeError("Nodes counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Nodes is null", pos)
        nodes_list: list[Node] = []
        for _ in range(elements):
            n_node_id = _unpack_i(buf, pos)[0]
            pos += 4
            n_elements = buf[pos]
            if n_elements > 127:
                n_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            n_elements -= 1
            if n_elements > (end - pos) // 5:
                raise DecodeError("Listeners counts more elements than there are bytes", pos)
            if n_elements < 0:
                raise DecodeError("Listeners is null", pos)
            n_listeners_list: list[Listener] = []
            for _ in range(n_elements):
                n_l_name, pos = read_compact_string(buf, pos)
                n_l_host, pos = read_compact_string(buf, pos)
                n_l_port = _unpack_H(buf, pos)[0]
                pos += 2
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                n_l = Listener(n_l_name, n_l_host, n_l_port)
                n_listeners_list.append(n_l)
            n_listeners: Sequence[Listener] = n_listeners_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            n = Node(n_node_id, n_listeners)
            nodes_list.append(n)
        nodes: Sequence[Node] = nodes_list
    else:
        nodes = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeQuorumResponse(error_code, error_message, topics, nodes)
    return message


def _encode_flexible(out: bytearray, message: DescribeQuorumResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    if version >= 2:
        if message.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, message.error_message)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.topic_name)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_ih(t_p.partition_index, t_p.error_code)
            if version >= 2:
                if t_p.error_message is None:
                    out.append(0)
                else:
                    write_compact_string(out, t_p.error_message)
            out += _pack_iiq(t_p.leader_id, t_p.leader_epoch, t_p.high_watermark)
            count = len(t_p.current_voters) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_p_c in t_p.current_voters:
                out += _pack_i(t_p_c.replica_id)
                if version >= 2:
                    out += _pack_u(t_p_c.replica_directory_id)
                out += _pack_q(t_p_c.log_end_offset)
                if version >= 1:
                    out += _pack_qq(t_p_c.last_fetch_timestamp, t_p_c.last_caught_up_timestamp)
                out += b"\x00"
            count = len(t_p.observers) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_p_o in t_p.observers:
                out += _pack_i(t_p_o.replica_id)
                if version >= 2:
                    out += _pack_u(t_p_o.replica_directory_id)
                out += _pack_q(t_p_o.log_end_offset)
                if version >= 1:
                    out += _pack_qq(t_p_o.last_fetch_timestamp, t_p_o.last_caught_up_timestamp)
                out += b"\x00"
            out += b"\x00"
        out += b"\x00"
    if version >= 2:
        count = len(message.nodes) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for n in message.nodes:
            out += _pack_i(n.node_id)
            count = len(n.listeners) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for n_l in n.listeners:
                write_compact_string(out, n_l.name)
                write_compact_string(out, n_l.host)
                out += _pack_Hx(n_l.port)
            out += b"\x00"
    out += b"\x00"
