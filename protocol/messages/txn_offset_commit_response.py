"""GENERATED from tools/schemas by tools/generate.py (`make generate`): TxnOffsetCommitResponse, key 28, versions 0-6."""

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
    read_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack


class TxnOffsetCommitResponsePartition(Message):
    """An element of `partitions` of TxnOffsetCommitResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(Message):
    """An element of `topics` of TxnOffsetCommitResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[TxnOffsetCommitResponsePartition] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class TxnOffsetCommitResponse(Message):
    """The message TxnOffsetCommitResponse, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics", "fence_reason")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponseTopic] = (),
        fence_reason: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.fence_reason = fence_reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> TxnOffsetCommitResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("TxnOffsetCommitResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> TxnOffsetCommitResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[TxnOffsetCommitResponseTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 6:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[TxnOffsetCommitResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            t_p = TxnOffsetCommitResponsePartition(t_p_partition_index, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[TxnOffsetCommitResponsePartition] = t_partitions_list
        t = TxnOffsetCommitResponseTopic(t_name, ZERO_UUID, t_partitions)
        topics_list.append(t)
    topics: Sequence[TxnOffsetCommitResponseTopic] = topics_list
    message = TxnOffsetCommitResponse(throttle_time_ms, topics, None)
    return message


def _encode_classic(out: bytearray, message: TxnOffsetCommitResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_ih(t_p.partition_index, t_p.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> TxnOffsetCommitResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
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
    topics_list: list[TxnOffsetCommitResponseTopic] = []
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
        if t_elements > (end - pos) // 7:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[TxnOffsetCommitResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = TxnOffsetCommitResponsePartition(t_p_partition_index, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[TxnOffsetCommitResponsePartition] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = TxnOffsetCommitResponseTopic(t_name, t_topic_id, t_partitions)
        topics_list.append(t)
    topics: Sequence[TxnOffsetCommitResponseTopic] = topics_list
    fence_reason: str | None = None
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 9000 in tags:
            pos, stop = tags[9000]
            fence_reason, pos = read_compact_nullable_string(buf, pos)
            if pos != stop:
                raise DecodeError("tagged field FenceReason is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = TxnOffsetCommitResponse(throttle_time_ms, topics, fence_reason)
    return message


def _encode_flexible(out: bytearray, message: TxnOffsetCommitResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
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
            out += _pack_ihx(t_p.partition_index, t_p.error_code)
        out += b"\x00"
    if message.fence_reason is not None:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.fence_reason is not None:
            out = bytearray()
            if message.fence_reason is None:
                out.append(0)
            else:
                write_compact_string(out, message.fence_reason)
            tags.append((9000, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
