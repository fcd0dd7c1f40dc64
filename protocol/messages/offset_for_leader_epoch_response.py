"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetForLeaderEpochResponse, key 23, versions 2-4."""

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

_unpack_hiiq = Struct(">hiiq").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_hiiq = Struct(">hiiq").pack
_pack_hiiqx = Struct(">hiiqx").pack
_pack_i = Struct(">i").pack


class EpochEndOffset(Message):
    """An element of `partitions` of OffsetForLeaderTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "partition", "leader_epoch", "end_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    """An element of `topics` of OffsetForLeaderEpochResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[EpochEndOffset] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochResponse(Message):
    """The message OffsetForLeaderEpochResponse, versions 2-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetForLeaderEpochResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetForLeaderEpochResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetForLeaderEpochResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[OffsetForLeaderTopicResult] = []
    for _ in range(elements):
        t_topic, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 18:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[EpochEndOffset] = []
        for _ in range(t_elements):
            t_p_error_code, t_p_partition, t_p_leader_epoch, t_p_end_offset = _unpack_hiiq(buf, pos)
            pos += 18
            t_p = EpochEndOffset(t_p_error_code, t_p_partition, t_p_leader_epoch, t_p_end_offset)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[EpochEndOffset] = t_partitions_list
        t = OffsetForLeaderTopicResult(t_topic, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetForLeaderTopicResult] = topics_list
    message = OffsetForLeaderEpochResponse(throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetForLeaderEpochResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.topic)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_hiiq(t_p.error_code, t_p.partition, t_p.leader_epoch, t_p.end_offset)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetForLeaderEpochResponse:
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
    topics_list: list[OffsetForLeaderTopicResult] = []
    for _ in range(elements):
        t_topic, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 19:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[EpochEndOffset] = []
        for _ in range(t_elements):
            t_p_error_code, t_p_partition, t_p_leader_epoch, t_p_end_offset = _unpack_hiiq(buf, pos)
            pos += 18
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = EpochEndOffset(t_p_error_code, t_p_partition, t_p_leader_epoch, t_p_end_offset)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[EpochEndOffset] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = OffsetForLeaderTopicResult(t_topic, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetForLeaderTopicResult] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = OffsetForLeaderEpochResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: OffsetForLeaderEpochResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
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
            out += _pack_hiiqx(t_p.error_code, t_p.partition, t_p.leader_epoch, t_p.end_offset)
        out += b"\x00"
    out += b"\x00"
