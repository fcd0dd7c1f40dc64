"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeGroupsResponse, key 15, versions 0-6."""

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

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class DescribedGroupMember(Message):
    """An element of `members` of DescribedGroup."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    """An element of `groups` of DescribeGroupsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: Sequence[DescribedGroupMember] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    """The message DescribeGroupsResponse, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "groups")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeGroupsResponse:
        try:
            if version >= 5:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeGroupsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 5:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeGroupsResponse:
    end = len(buf)
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 14:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    groups_list: list[DescribedGroup] = []
    for _ in range(elements):
        g_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        g_group_id, pos = read_string(buf, pos)
        g_group_state, pos = read_string(buf, pos)
        g_protocol_type, pos = read_string(buf, pos)
        g_protocol_data, pos = read_string(buf, pos)
        g_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if g_elements > (end - pos) // 14:
            raise DecodeError("Members counts more elements than there are bytes", pos)
        if g_elements < 0:
            raise DecodeError("Members is null", pos)
        g_members_list: list[DescribedGroupMember] = []
        for _ in range(g_elements):
            g_m_member_id, pos = read_string(buf, pos)
            if version >= 4:
                g_m_group_instance_id, pos = read_nullable_string(buf, pos)
            else:
                g_m_group_instance_id = None
            g_m_client_id, pos = read_string(buf, pos)
            g_m_client_host, pos = read_string(buf, pos)
            g_m_member_metadata, pos = read_bytes(buf, pos)
            g_m_member_assignment, pos = read_bytes(buf, pos)
            g_m = DescribedGroupMember(g_m_member_id, g_m_group_instance_id, g_m_client_id, g_m_client_host, g_m_member_metadata, g_m_member_assignment)
            g_members_list.append(g_m)
        g_members: Sequence[DescribedGroupMember] = g_members_list
        if version >= 3:
            g_authorized_operations = _unpack_i(buf, pos)[0]
            pos += 4
        else:
            g_authorized_operations = -2147483648
        g = DescribedGroup(g_error_code, None, g_group_id, g_group_state, g_protocol_type, g_protocol_data, g_members, g_authorized_operations)
        groups_list.append(g)
    groups: Sequence[DescribedGroup] = groups_list
    message = DescribeGroupsResponse(throttle_time_ms, groups)
    return message


def _encode_classic(out: bytearray, message: DescribeGroupsResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.groups))
    for g in message.groups:
        out += _pack_h(g.error_code)
        write_string(out, g.group_id)
        write_string(out, g.group_state)
        write_string(out, g.protocol_type)
        write_string(out, g.protocol_data)
        out += _pack_i(len(g.members))
        for g_m in g.members:
            write_string(out, g_m.member_id)
            if version >= 4:
                write_nullable_string(out, g_m.group_instance_id)
            write_string(out, g_m.client_id)
            write_string(out, g_m.client_host)
            write_bytes(out, g_m.member_metadata)
            write_bytes(out, g_m.member_assignment)
        if version >= 3:
            out += _pack_i(g.authorized_operations)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeGroupsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 12:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    groups_list: list[DescribedGroup] = []
    for _ in range(elements):
        g_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        if version >= 6:
            g_error_message, pos = read_compact_nullable_string(buf, pos)
        else:
            g_error_message = None
        g_group_id, pos = read_compact_string(buf, pos)
        g_group_state, pos = read_compact_string(buf, pos)
        g_protocol_type, pos = read_compact_string(buf, pos)
        g_protocol_data, pos = read_compact_string(buf, pos)
        g_elements = buf[pos]
        if g_elements > 127:
            g_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        g_elements -= 1
        if g_elements > (end - pos) // 7:
            raise DecodeError("Members counts more elements than there are bytes", pos)
        if g_elements < 0:
            raise DecodeError("Members is null", pos)
        g_members_list: list[DescribedGroupMember] = []
        for _ in range(g_elements):
            g_m_member_id, pos = read_compact_string(buf, pos)
            g_m_group_instance_id, pos = read_compact_nullable_string(buf, pos)
            g_m_client_id, pos = read_compact_string(buf, pos)
            g_m_client_host, pos = read_compact_string(buf, pos)
            g_m_member_metadata, pos = read_compact_bytes(buf, pos)
            g_m_member_assignment, pos = read_compact_bytes(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            g_m = DescribedGroupMember(g_m_member_id, g_m_group_instance_id, g_m_client_id, g_m_client_host, g_m_member_metadata, g_m_member_assignment)
            g_members_list.append(g_m)
        g_members: Sequence[DescribedGroupMember] = g_members_list
        g_authorized_operations = _unpack_i(buf, pos)[0]
        pos += 4
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        g = DescribedGroup(g_error_code, g_error_message, g_group_id, g_group_state, g_protocol_type, g_protocol_data, g_members, g_authorized_operations)
        groups_list.append(g)
    groups: Sequence[DescribedGroup] = groups_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeGroupsResponse(throttle_time_ms, groups)
    return message


def _encode_flexible(out: bytearray, message: DescribeGroupsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.groups) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for g in message.groups:
        out += _pack_h(g.error_code)
        if version >= 6:
            if g.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, g.error_message)
        write_compact_string(out, g.group_id)
        write_compact_string(out, g.group_state)
        write_compact_string(out, g.protocol_type)
        write_compact_string(out, g.protocol_data)
        count = len(g.members) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for g_m in g.members:
            write_compact_string(out, g_m.member_id)
            if g_m.group_instance_id is None:
                out.append(0)
            else:
                write_compact_string(out, g_m.group_instance_id)
            write_compact_string(out, g_m.client_id)
            write_compact_string(out, g_m.client_host)
            write_compact_bytes(out, g_m.member_metadata)
            write_compact_bytes(out, g_m.member_assignment)
            out += b"\x00"
        out += _pack_ix(g.authorized_operations)
    out += b"\x00"
