"""GENERATED from tools/schemas by tools/generate.py (`make generate`): LeaveGroupResponse, key 13, versions 0-5."""

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
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_hx = Struct(">hx").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class MemberResponse(Message):
    """An element of `members` of LeaveGroupResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "group_instance_id", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    """The message LeaveGroupResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "members")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Sequence[MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> LeaveGroupResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("LeaveGroupResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> LeaveGroupResponse:
    end = len(buf)
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    if version >= 3:
        elements = _unpack_i(buf, pos)[0]
        pos += 4
        if elements > (end - pos) // 6:
            raise DecodeError("Members counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Members is null", pos)
        members_list: list[MemberResponse] = []
        for _ in range(elements):
            m_member_id, pos = read_string(buf, pos)
            m_group_instance_id, pos = read_nullable_string(buf, pos)
            m_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            m = MemberResponse(m_member_id, m_group_instance_id, m_error_code)
            members_list.append(m)
        members: Sequence[MemberResponse] = members_list
    else:
        members = ()
    message = LeaveGroupResponse(throttle_time_ms, error_code, members)
    return message


def _encode_classic(out: bytearray, message: LeaveGroupResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_h(message.error_code)
    if version >= 3:
        out += _pack_i(len(message.members))
        for m in message.members:
            write_string(out, m.member_id)
            write_nullable_string(out, m.group_instance_id)
            out += _pack_h(m.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> LeaveGroupResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("Members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Members is null", pos)
    members_list: list[MemberResponse] = []
    for _ in range(elements):
        m_member_id, pos = read_compact_string(buf, pos)
        m_group_instance_id, pos = read_compact_nullable_string(buf, pos)
        m_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        m = MemberResponse(m_member_id, m_group_instance_id, m_error_code)
        members_list.append(m)
    members: Sequence[MemberResponse] = members_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = LeaveGroupResponse(throttle_time_ms, error_code, members)
    return message


def _encode_flexible(out: bytearray, message: LeaveGroupResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    count = len(message.members) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for m in message.members:
        write_compact_string(out, m.member_id)
        if m.group_instance_id is None:
            out.append(0)
        else:
            write_compact_string(out, m.group_instance_id)
        out += _pack_hx(m.error_code)
    out += b"\x00"
