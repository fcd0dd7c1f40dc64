"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ProduceRequest, key 0, versions 3-13."""

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
    read_compact_nullable_records,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_records,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_bytes,
    write_compact_string,
    write_nullable_bytes,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_hi = Struct(">hi").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_u = Struct(">16s").pack
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack


class PartitionProduceData(Message):
    """An element of `partition_data` of TopicProduceData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("index", "records")
    __slots__ = FIELDS

    def __init__(
        self,
        index: int = 0,
        records: Buffer | None = b"",
    ) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Message):
    """An element of `topic_data` of ProduceRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partition_data")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: Sequence[PartitionProduceData] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class ProduceRequest(Message):
    """The message ProduceRequest, versions 3-13."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "acks", "timeout_ms", "topic_data")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Sequence[TopicProduceData] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ProduceRequest:
        try:
            if version >= 9:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ProduceRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 9:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ProduceRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    transactional_id, pos = read_nullable_string(buf, pos)
    acks, timeout_ms = _unpack_hi(buf, pos)
    pos += 6
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("TopicData counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TopicData is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topic_data_list: list[TopicProduceData] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 8:
            raise DecodeError("PartitionData counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("PartitionData is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partition_data_list: list[PartitionProduceData] = []
        for _ in range(t_elements):
            t_p_index = _unpack_i(buf, pos)[0]
            pos += 4
            t_p_records, pos = read_nullable_records(buf, pos)
            t_p = PartitionProduceData(t_p_index, t_p_records)
            t_partition_data_list.append(t_p)
        t_partition_data: Sequence[PartitionProduceData] = t_partition_data_list
        t = TopicProduceData(t_name, ZERO_UUID, t_partition_data)
        topic_data_list.append(t)
    topic_data: Sequence[TopicProduceData] = topic_data_list
    message = ProduceRequest(transactional_id, acks, timeout_ms, topic_data)
    return message


def _encode_classic(out: bytearray, message: ProduceRequest, version: int) -> None:
    write_nullable_string(out, message.transactional_id)
    out += _pack_hi(message.acks, message.timeout_ms)
    out += _pack_i(len(message.topic_data))
    for t in message.topic_data:
        write_string(out, t.name)
        out += _pack_i(len(t.partition_data))
        for t_p in t.partition_data:
            out += _pack_i(t_p.index)
            write_nullable_bytes(out, t_p.records)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ProduceRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    transactional_id, pos = read_compact_nullable_string(buf, pos)
    acks, timeout_ms = _unpack_hi(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("TopicData counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TopicData is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topic_data_list: list[TopicProduceData] = []
    for _ in range(elements):
        if version <= 12:
            t_name, pos = read_compact_string(buf, pos)
        else:
            t_name = ""
        if version >= 13:
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
        if t_elements > (end - pos) // 6:
            raise DecodeError("PartitionData counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("PartitionData is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partition_data_list: list[PartitionProduceData] = []
        for _ in range(t_elements):
            t_p_index = _unpack_i(buf, pos)[0]
            pos += 4
            t_p_records, pos = read_compact_nullable_records(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = PartitionProduceData(t_p_index, t_p_records)
            t_partition_data_list.append(t_p)
        t_partition_data: Sequence[PartitionProduceData] = t_partition_data_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = TopicProduceData(t_name, t_topic_id, t_partition_data)
        topic_data_list.append(t)
    topic_data: Sequence[TopicProduceData] = topic_data_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ProduceRequest(transactional_id, acks, timeout_ms, topic_data)
    return message


def _encode_flexible(out: bytearray, message: ProduceRequest, version: int) -> None:
    if message.transactional_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.transactional_id)
    out += _pack_hi(message.acks, message.timeout_ms)
    count = len(message.topic_data) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topic_data:
        if version <= 12:
            write_compact_string(out, t.name)
        if version >= 13:
            out += _pack_u(t.topic_id)
        count = len(t.partition_data) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partition_data:
            out += _pack_i(t_p.index)
            if t_p.records is None:
                out.append(0)
            else:
                write_compact_bytes(out, t_p.records)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
