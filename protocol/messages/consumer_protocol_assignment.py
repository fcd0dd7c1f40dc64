"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ConsumerProtocolAssignment, versions 0-3."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_nullable_bytes,
    read_string,
    write_nullable_bytes,
    write_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class TopicPartition(Message):
    """An element of `assigned_partitions` of ConsumerProtocolAssignment."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ConsumerProtocolAssignment(Message):
    """The message ConsumerProtocolAssignment, versions 0-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("assigned_partitions", "user_data")
    __slots__ = FIELDS

    def __init__(
        self,
        assigned_partitions: Sequence[TopicPartition] = (),
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = assigned_partitions
        self.user_data = user_data

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ConsumerProtocolAssignment:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ConsumerProtocolAssignment ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ConsumerProtocolAssignment:
    end = len(buf)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("AssignedPartitions counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("AssignedPartitions is null", pos)
    assigned_partitions_list: list[TopicPartition] = []
    for _ in range(elements):
        a_topic, pos = read_string(buf, pos)
        a_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if a_elements > (end - pos) // 4:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if a_elements < 0:
            raise DecodeError("Partitions is null", pos)
        a_partitions: Sequence[int] = list(unpack_from(f">{a_elements}i", buf, pos))
        pos += 4 * a_elements
        a = TopicPartition(a_topic, a_partitions)
        assigned_partitions_list.append(a)
    assigned_partitions: Sequence[TopicPartition] = assigned_partitions_list
    user_data, pos = read_nullable_bytes(buf, pos)
    message = ConsumerProtocolAssignment(assigned_partitions, user_data)
    return message


def _encode_classic(out: bytearray, message: ConsumerProtocolAssignment, version: int) -> None:
    out += _pack_i(len(message.assigned_partitions))
    for a in message.assigned_partitions:
        write_string(out, a.topic)
        out += _pack_i(len(a.partitions))
        out += struct_pack(f">{len(a.partitions)}i", *a.partitions)
    write_nullable_bytes(out, message.user_data)
