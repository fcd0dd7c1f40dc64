"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListPartitionReassignmentsRequest, key 46, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class ListPartitionReassignmentsTopics(Message):
    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics")

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListPartitionReassignmentsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListPartitionReassignmentsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListPartitionReassignmentsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    count = buf[pos]
    if count > 127:
        count, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    count -= 1
    if count > (end - pos) // 3:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if count < 0:
        topics: Sequence[ListPartitionReassignmentsTopics] | None = None
    else:
        left -= count
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[ListPartitionReassignmentsTopics] = []
        for _ in range(count):
            t_name, pos = read_compact_string(buf, pos)
            count = buf[pos]
            if count > 127:
                count, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            count -= 1
            if count > (end - pos) // 4:
                raise DecodeError("PartitionIndexes counts more elements than there are bytes", pos)
            if count < 0:
                raise DecodeError("PartitionIndexes is null", pos)
            left -= count
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_partition_indexes: Sequence[int] = list(unpack_from(f">{count}i", buf, pos))
            pos += 4 * count
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t = ListPartitionReassignmentsTopics(t_name, t_partition_indexes)
            topics_list.append(t)
        topics = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListPartitionReassignmentsRequest(timeout_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: ListPartitionReassignmentsRequest, version: int) -> None:
    out += _pack_i(message.timeout_ms)
    if message.topics is None:
        out += b"\x00"
    else:
        count = len(message.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.topics:
            write_compact_string(out, t.name)
            count = len(t.partition_indexes) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t.partition_indexes)}i", *t.partition_indexes)
            out += b"\x00"
    out += b"\x00"
