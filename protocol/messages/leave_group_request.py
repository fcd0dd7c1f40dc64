"""GENERATED from tools/schemas by tools/generate.py (`make generate`): LeaveGroupRequest, key 13, versions 0-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class MemberIdentity(Message):
    """An element of `members` of LeaveGroupRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "group_instance_id", "reason")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Message):
    """The message LeaveGroupRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "member_id", "members")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        members: Sequence[MemberIdentity] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = members

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> LeaveGroupRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("LeaveGroupRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> LeaveGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    if version <= 2:
        member_id, pos = read_string(buf, pos)
    else:
        member_id = ""
    if version >= 3:
        elements = _unpack_i(buf, pos)[0]
        pos += 4
        if elements > (end - pos) // 4:
            raise DecodeError("Members counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Members is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        members_list: list[MemberIdentity] = []
        for _ in range(elements):
            m_member_id, pos = read_string(buf, pos)
            m_group_instance_id, pos = read_nullable_string(buf, pos)
            m = MemberIdentity(m_member_id, m_group_instance_id, None)
            members_list.append(m)
        members: Sequence[MemberIdentity] = members_list
    else:
        members = ()
    message = LeaveGroupRequest(group_id, member_id, members)
    return message


def _encode_classic(out: bytearray, message: LeaveGroupRequest, version: int) -> None:
    write_string(out, message.group_id)
    if version <= 2:
        write_string(out, message.member_id)
    if version >= 3:
        out += _pack_i(len(message.members))
        for m in message.members:
            write_string(out, m.member_id)
            write_nullable_string(out, m.group_instance_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> LeaveGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_compact_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Members is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    members_list: list[MemberIdentity] = []
    for _ in range(elements):
        m_member_id, pos = read_compact_string(buf, pos)
        m_group_instance_id, pos = read_compact_nullable_string(buf, pos)
        if version >= 5:
            m_reason, pos = read_compact_nullable_string(buf, pos)
        else:
            m_reason = None
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        m = MemberIdentity(m_member_id, m_group_instance_id, m_reason)
        members_list.append(m)
    members: Sequence[MemberIdentity] = members_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = LeaveGroupRequest(group_id, "", members)
    return message


def _encode_flexible(out: bytearray, message: LeaveGroupRequest, version: int) -> None:
    write_compact_string(out, message.group_id)
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
        if version >= 5:
            if m.reason is None:
                out.append(0)
            else:
                write_compact_string(out, m.reason)
        out += b"\x00"
    out += b"\x00"
