"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SyncGroupRequest, key 14, versions 0-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_bytes,
    read_compact_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_bytes,
    write_compact_bytes,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class SyncGroupRequestAssignment(Message):
    """An element of `assignments` of SyncGroupRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "assignment")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Message):
    """The message SyncGroupRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SyncGroupRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SyncGroupRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SyncGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    generation_id = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_string(buf, pos)
    if version >= 3:
        group_instance_id, pos = read_nullable_string(buf, pos)
    else:
        group_instance_id = None
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Assignments counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Assignments is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    assignments_list: list[SyncGroupRequestAssignment] = []
    for _ in range(elements):
        a_member_id, pos = read_string(buf, pos)
        a_assignment, pos = read_bytes(buf, pos)
        a = SyncGroupRequestAssignment(a_member_id, a_assignment)
        assignments_list.append(a)
    assignments: Sequence[SyncGroupRequestAssignment] = assignments_list
    message = SyncGroupRequest(group_id, generation_id, member_id, group_instance_id, None, None, assignments)
    return message


def _encode_classic(out: bytearray, message: SyncGroupRequest, version: int) -> None:
    write_string(out, message.group_id)
    out += _pack_i(message.generation_id)
    write_string(out, message.member_id)
    if version >= 3:
        write_nullable_string(out, message.group_instance_id)
    out += _pack_i(len(message.assignments))
    for a in message.assignments:
        write_string(out, a.member_id)
        write_bytes(out, a.assignment)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> SyncGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_compact_string(buf, pos)
    generation_id = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_compact_string(buf, pos)
    group_instance_id, pos = read_compact_nullable_string(buf, pos)
    if version >= 5:
        protocol_type, pos = read_compact_nullable_string(buf, pos)
    else:
        protocol_type = None
    if version >= 5:
        protocol_name, pos = read_compact_nullable_string(buf, pos)
    else:
        protocol_name = None
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Assignments counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Assignments is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    assignments_list: list[SyncGroupRequestAssignment] = []
    for _ in range(elements):
        a_member_id, pos = read_compact_string(buf, pos)
        a_assignment, pos = read_compact_bytes(buf, pos)
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        a = SyncGroupRequestAssignment(a_member_id, a_assignment)
        assignments_list.append(a)
    assignments: Sequence[SyncGroupRequestAssignment] = assignments_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = SyncGroupRequest(group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, assignments)
    return message


def _encode_flexible(out: bytearray, message: SyncGroupRequest, version: int) -> None:
    write_compact_string(out, message.group_id)
    out += _pack_i(message.generation_id)
    write_compact_string(out, message.member_id)
    if message.group_instance_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.group_instance_id)
    if version >= 5:
        if message.protocol_type is None:
            out.append(0)
        else:
            write_compact_string(out, message.protocol_type)
    if version >= 5:
        if message.protocol_name is None:
            out.append(0)
        else:
            write_compact_string(out, message.protocol_name)
    count = len(message.assignments) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for a in message.assignments:
        write_compact_string(out, a.member_id)
        write_compact_bytes(out, a.assignment)
        out += b"\x00"
    out += b"\x00"
