"""GENERATED from tools/schemas by tools/generate.py (`make generate`): JoinGroupResponse, key 11, versions 0-9."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_bytes,
    read_compact_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_bytes,
    write_compact_bytes,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_hi = Struct(">hi").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ihi = Struct(">ihi").unpack_from
_pack_o = Struct(">?").pack
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack
_pack_ihi = Struct(">ihi").pack


class JoinGroupResponseMember(Message):
    """An element of `members` of JoinGroupResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "group_instance_id", "metadata")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    """The message JoinGroupResponse, versions 0-9."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Sequence[JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> JoinGroupResponse:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("JoinGroupResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> JoinGroupResponse:
    end = len(buf)
    if version >= 2:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code, generation_id = _unpack_hi(buf, pos)
    pos += 6
    protocol_name, pos = read_string(buf, pos)
    leader, pos = read_string(buf, pos)
    member_id, pos = read_string(buf, pos)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Members is null", pos)
    members_list: list[JoinGroupResponseMember] = []
    for _ in range(elements):
        m_member_id, pos = read_string(buf, pos)
        if version >= 5:
            m_group_instance_id, pos = read_nullable_string(buf, pos)
        else:
            m_group_instance_id = None
        m_metadata, pos = read_bytes(buf, pos)
        m = JoinGroupResponseMember(m_member_id, m_group_instance_id, m_metadata)
        members_list.append(m)
    members: Sequence[JoinGroupResponseMember] = members_list
    message = JoinGroupResponse(throttle_time_ms, error_code, generation_id, None, protocol_name, leader, False, member_id, members)
    return message


def _encode_classic(out: bytearray, message: JoinGroupResponse, version: int) -> None:
    if version >= 2:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_hi(message.error_code, message.generation_id)
    if message.protocol_name is None:
        raise ValueError(f"ProtocolName cannot be null in version {version}")
    write_string(out, message.protocol_name)
    write_string(out, message.leader)
    write_string(out, message.member_id)
    out += _pack_i(len(message.members))
    for m in message.members:
        write_string(out, m.member_id)
        if version >= 5:
            write_nullable_string(out, m.group_instance_id)
        write_bytes(out, m.metadata)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> JoinGroupResponse:
    end = len(buf)
    throttle_time_ms, error_code, generation_id = _unpack_ihi(buf, pos)
    pos += 10
    if version >= 7:
        protocol_type, pos = read_compact_nullable_string(buf, pos)
    else:
        protocol_type = None
    protocol_name, pos = read_compact_nullable_string(buf, pos)
    if protocol_name is None and version < 7:
        raise DecodeError("ProtocolName is null", pos)
    leader, pos = read_compact_string(buf, pos)
    if version >= 9:
        skip_assignment = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        skip_assignment = False
    member_id, pos = read_compact_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("Members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Members is null", pos)
    members_list: list[JoinGroupResponseMember] = []
    for _ in range(elements):
        m_member_id, pos = read_compact_string(buf, pos)
        m_group_instance_id, pos = read_compact_nullable_string(buf, pos)
        m_metadata, pos = read_compact_bytes(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        m = JoinGroupResponseMember(m_member_id, m_group_instance_id, m_metadata)
        members_list.append(m)
    members: Sequence[JoinGroupResponseMember] = members_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = JoinGroupResponse(throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members)
    return message


def _encode_flexible(out: bytearray, message: JoinGroupResponse, version: int) -> None:
    out += _pack_ihi(message.throttle_time_ms, message.error_code, message.generation_id)
    if version >= 7:
        if message.protocol_type is None:
            out.append(0)
        else:
            write_compact_string(out, message.protocol_type)
    if message.protocol_name is None and version < 7:
        raise ValueError(f"ProtocolName cannot be null in version {version}")
    if message.protocol_name is None:
        out.append(0)
    else:
        write_compact_string(out, message.protocol_name)
    write_compact_string(out, message.leader)
    if version >= 9:
        out += _pack_o(message.skip_assignment)
    write_compact_string(out, message.member_id)
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
        write_compact_bytes(out, m.metadata)
        out += b"\x00"
    out += b"\x00"
