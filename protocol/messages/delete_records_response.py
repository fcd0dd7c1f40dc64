"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteRecordsResponse, key 21, versions 0-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_iqh = Struct(">iqh").unpack_from
_pack_i = Struct(">i").pack
_pack_iqh = Struct(">iqh").pack
_pack_iqhx = Struct(">iqhx").pack


class DeleteRecordsPartitionResult(Message):
    """An element of `partitions` of DeleteRecordsTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "low_watermark", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    """An element of `topics` of DeleteRecordsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsResponse(Message):
    """The message DeleteRecordsResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteRecordsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteRecordsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteRecordsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[DeleteRecordsTopicResult] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 14:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[DeleteRecordsPartitionResult] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_low_watermark, t_p_error_code = _unpack_iqh(buf, pos)
            pos += 14
            t_p = DeleteRecordsPartitionResult(t_p_partition_index, t_p_low_watermark, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[DeleteRecordsPartitionResult] = t_partitions_list
        t = DeleteRecordsTopicResult(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[DeleteRecordsTopicResult] = topics_list
    message = DeleteRecordsResponse(throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: DeleteRecordsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_iqh(t_p.partition_index, t_p.low_watermark, t_p.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteRecordsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
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
    topics_list: list[DeleteRecordsTopicResult] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 15:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[DeleteRecordsPartitionResult] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_low_watermark, t_p_error_code = _unpack_iqh(buf, pos)
            pos += 14
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = DeleteRecordsPartitionResult(t_p_partition_index, t_p_low_watermark, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[DeleteRecordsPartitionResult] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = DeleteRecordsTopicResult(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[DeleteRecordsTopicResult] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteRecordsResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: DeleteRecordsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
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
            out += _pack_iqhx(t_p.partition_index, t_p.low_watermark, t_p.error_code)
        out += b"\x00"
    out += b"\x00"
