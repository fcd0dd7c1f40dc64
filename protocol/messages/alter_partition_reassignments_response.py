"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterPartitionReassignmentsResponse, key 45, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_o = Struct(">?").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class ReassignablePartitionResponse(Message):
    """An element of `partitions` of ReassignableTopicResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Message):
    """An element of `responses` of AlterPartitionReassignmentsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsResponse(Message):
    """The message AlterPartitionReassignmentsResponse, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: Sequence[ReassignableTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterPartitionReassignmentsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterPartitionReassignmentsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterPartitionReassignmentsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 1:
        allow_replication_factor_change = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        allow_replication_factor_change = True
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[ReassignableTopicResponse] = []
    for _ in range(elements):
        r_name, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 8:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Partitions is null", pos)
        r_partitions_list: list[ReassignablePartitionResponse] = []
        for _ in range(r_elements):
            r_p_partition_index, r_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            r_p_error_message, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_p = ReassignablePartitionResponse(r_p_partition_index, r_p_error_code, r_p_error_message)
            r_partitions_list.append(r_p)
        r_partitions: Sequence[ReassignablePartitionResponse] = r_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = ReassignableTopicResponse(r_name, r_partitions)
        responses_list.append(r)
    responses: Sequence[ReassignableTopicResponse] = responses_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterPartitionReassignmentsResponse(throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses)
    return message


def _encode_flexible(out: bytearray, message: AlterPartitionReassignmentsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version >= 1:
        out += _pack_o(message.allow_replication_factor_change)
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    count = len(message.responses) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.responses:
        write_compact_string(out, r.name)
        count = len(r.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_p in r.partitions:
            out += _pack_ih(r_p.partition_index, r_p.error_code)
            if r_p.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, r_p.error_message)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
