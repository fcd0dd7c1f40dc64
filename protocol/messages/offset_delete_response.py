"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetDeleteResponse, key 47, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)

_unpack_hi = Struct(">hi").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class OffsetDeleteResponsePartition(Message):
    """An element of `partitions` of OffsetDeleteResponseTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Message):
    """An element of `topics` of OffsetDeleteResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteResponse(Message):
    """The message OffsetDeleteResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetDeleteResponse:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetDeleteResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetDeleteResponse:
    end = len(buf)
    error_code, throttle_time_ms = _unpack_hi(buf, pos)
    pos += 6
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[OffsetDeleteResponseTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 6:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[OffsetDeleteResponsePartition] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            t_p = OffsetDeleteResponsePartition(t_p_partition_index, t_p_error_code)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[OffsetDeleteResponsePartition] = t_partitions_list
        t = OffsetDeleteResponseTopic(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[OffsetDeleteResponseTopic] = topics_list
    message = OffsetDeleteResponse(error_code, throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: OffsetDeleteResponse, version: int) -> None:
    out += _pack_hi(message.error_code, message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_ih(t_p.partition_index, t_p.error_code)
