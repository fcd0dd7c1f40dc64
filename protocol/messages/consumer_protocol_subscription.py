"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ConsumerProtocolSubscription, versions 0-3."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    write_nullable_bytes,
    write_nullable_string,
    write_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class TopicPartition(Message):
    """An element of `owned_partitions` of ConsumerProtocolSubscription."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class ConsumerProtocolSubscription(Message):
    """The message ConsumerProtocolSubscription, versions 0-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[str] = (),
        user_data: bytes | None = None,
        owned_partitions: Sequence[TopicPartition] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.user_data = user_data
        self.owned_partitions = owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ConsumerProtocolSubscription:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ConsumerProtocolSubscription ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ConsumerProtocolSubscription:
    end = len(buf)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[str] = []
    for _ in range(elements):
        t, pos = read_string(buf, pos)
        topics_list.append(t)
    topics: Sequence[str] = topics_list
    user_data, pos = read_nullable_bytes(buf, pos)
    if version >= 1:
        elements = _unpack_i(buf, pos)[0]
        pos += 4
        if elements > (end - pos) // 6:
            raise DecodeError("OwnedPartitions counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("OwnedPartitions is null", pos)
        owned_partitions_list: list[TopicPartition] = []
        for _ in range(elements):
            o_topic, pos = read_string(buf, pos)
            o_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if o_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if o_elements < 0:
                raise DecodeError("Partitions is null", pos)
            o_partitions: Sequence[int] = list(unpack_from(f">{o_elements}i", buf, pos))
            pos += 4 * o_elements
            o = TopicPartition(o_topic, o_partitions)
            owned_partitions_list.append(o)
        owned_partitions: Sequence[TopicPartition] = owned_partitions_list
    else:
        owned_partitions = ()
    if version >= 2:
        generation_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        generation_id = -1
    if version >= 3:
        rack_id, pos = read_nullable_string(buf, pos)
    else:
        rack_id = None
    message = ConsumerProtocolSubscription(topics, user_data, owned_partitions, generation_id, rack_id)
    return message


def _encode_classic(out: bytearray, message: ConsumerProtocolSubscription, version: int) -> None:
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t)
    write_nullable_bytes(out, message.user_data)
    if version >= 1:
        out += _pack_i(len(message.owned_partitions))
        for o in message.owned_partitions:
            write_string(out, o.topic)
            out += _pack_i(len(o.partitions))
            out += struct_pack(f">{len(o.partitions)}i", *o.partitions)
    if version >= 2:
        out += _pack_i(message.generation_id)
    if version >= 3:
        write_nullable_string(out, message.rack_id)
