"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteRecordsRequest, key 21, versions 0-2."""

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
_unpack_iq = Struct(">iq").unpack_from
_pack_i = Struct(">i").pack
_pack_iq = Struct(">iq").pack
_pack_iqx = Struct(">iqx").pack
_pack_ix = Struct(">ix").pack


class DeleteRecordsPartition(Message):
    """An element of `partitions` of DeleteRecordsTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "offset")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    """An element of `topics` of DeleteRecordsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsRequest(Message):
    """The message DeleteRecordsRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "timeout_ms")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteRecordsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteRecordsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteRecordsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[DeleteRecordsTopic] = []
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
        t_partitions_list: list[DeleteRecordsPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_offset = _unpack_iq(buf, pos)
            pos += 12
            t_p = DeleteRecordsPartition(t_p_partition_index, t_p_offset)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[DeleteRecordsPartition] = t_partitions_list
        t = DeleteRecordsTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[DeleteRecordsTopic] = topics_list
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = DeleteRecordsRequest(topics, timeout_ms)
    return message


def _encode_classic(out: bytearray, message: DeleteRecordsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iq(t_p.partition_index, t_p.offset)
    out += _pack_i(message.timeout_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteRecordsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
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
    topics_list: list[DeleteRecordsTopic] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
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
        t_partitions_list: list[DeleteRecordsPartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_offset = _unpack_iq(buf, pos)
            pos += 12
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_p = DeleteRecordsPartition(t_p_partition_index, t_p_offset)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[DeleteRecordsPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = DeleteRecordsTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[DeleteRecordsTopic] = topics_list
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteRecordsRequest(topics, timeout_ms)
    return message


def _encode_flexible(out: bytearray, message: DeleteRecordsRequest, version: int) -> None:
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
            out += _pack_iqx(t_p.partition_index, t_p.offset)
        out += b"\x00"
    out += _pack_ix(message.timeout_ms)
