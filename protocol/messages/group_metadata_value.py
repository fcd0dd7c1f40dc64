"""GENERATED from tools/schemas by tools/generate.py (`make generate`): GroupMetadataValue, versions 0-4."""

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

_unpack_i = Struct(">i").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack
_pack_q = Struct(">q").pack


class MemberMetadata(Message):
    """An element of `members` of GroupMetadataValue."""

    FIELDS: ClassVar[tuple[str, ...]] = ("member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout", "subscription", "assignment")
    __slots__ = FIELDS

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Message):
    """The message GroupMetadataValue, versions 0-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members")
    __slots__ = FIELDS

    def __init__(
        self,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: Sequence[MemberMetadata] = (),
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = members

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> GroupMetadataValue:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("GroupMetadataValue ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> GroupMetadataValue:
    end = len(buf)
    protocol_type, pos = read_string(buf, pos)
    generation = _unpack_i(buf, pos)[0]
    pos += 4
    protocol, pos = read_nullable_string(buf, pos)
    leader, pos = read_nullable_string(buf, pos)
    if version >= 2:
        current_state_timestamp = _unpack_q(buf, pos)[0]
        pos += 8
    else:
        current_state_timestamp = -1
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 18:
        raise DecodeError("members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("members is null", pos)
    members_list: list[MemberMetadata] = []
    for _ in range(elements):
        m_member_id, pos = read_string(buf, pos)
        if version >= 3:
            m_group_instance_id, pos = read_nullable_string(buf, pos)
        else:
            m_group_instance_id = None
        m_client_id, pos = read_string(buf, pos)
        m_client_host, pos = read_string(buf, pos)
        if version >= 1:
            m_rebalance_timeout = _unpack_i(buf, pos)[0]
            pos += 4
        else:
            m_rebalance_timeout = -1
        m_session_timeout = _unpack_i(buf, pos)[0]
        pos += 4
        m_subscription, pos = read_bytes(buf, pos)
        m_assignment, pos = read_bytes(buf, pos)
        m = MemberMetadata(m_member_id, m_group_instance_id, m_client_id, m_client_host, m_rebalance_timeout, m_session_timeout, m_subscription, m_assignment)
        members_list.append(m)
    members: Sequence[MemberMetadata] = members_list
    message = GroupMetadataValue(protocol_type, generation, protocol, leader, current_state_timestamp, members)
    return message


def _encode_classic(out: bytearray, message: GroupMetadataValue, version: int) -> None:
    write_string(out, message.protocol_type)
    out += _pack_i(message.generation)
    write_nullable_string(out, message.protocol)
    write_nullable_string(out, message.leader)
    if version >= 2:
        out += _pack_q(message.current_state_timestamp)
    out += _pack_i(len(message.members))
    for m in message.members:
        write_string(out, m.member_id)
        if version >= 3:
            write_nullable_string(out, m.group_instance_id)
        write_string(out, m.client_id)
        write_string(out, m.client_host)
        if version >= 1:
            out += _pack_i(m.rebalance_timeout)
        out += _pack_i(m.session_timeout)
        write_bytes(out, m.subscription)
        write_bytes(out, m.assignment)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> GroupMetadataValue:
    end = len(buf)
    protocol_type, pos = read_compact_string(buf, pos)
    generation = _unpack_i(buf, pos)[0]
    pos += 4
    protocol, pos = read_compact_nullable_string(buf, pos)
    leader, pos = read_compact_nullable_string(buf, pos)
    current_state_timestamp = _unpack_q(buf, pos)[0]
    pos += 8
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 15:
        raise DecodeError("members counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("members is null", pos)
    members_list: list[MemberMetadata] = []
    for _ in range(elements):
        m_member_id, pos = read_compact_string(buf, pos)
        m_group_instance_id, pos = read_compact_nullable_string(buf, pos)
        m_client_id, pos = read_compact_string(buf, pos)
        m_client_host, pos = read_compact_string(buf, pos)
        m_rebalance_timeout, m_session_timeout = _unpack_ii(buf, pos)
        pos += 8
        m_subscription, pos = read_compact_bytes(buf, pos)
        m_assignment, pos = read_compact_bytes(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        m = MemberMetadata(m_member_id, m_group_instance_id, m_client_id, m_client_host, m_rebalance_timeout, m_session_timeout, m_subscription, m_assignment)
        members_list.append(m)
    members: Sequence[MemberMetadata] = members_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = GroupMetadataValue(protocol_type, generation, protocol, leader, current_state_timestamp, members)
    return message


def _encode_flexible(out: bytearray, message: GroupMetadataValue, version: int) -> None:
    write_compact_string(out, message.protocol_type)
    out += _pack_i(message.generation)
    if message.protocol is None:
        out.append(0)
    else:
        write_compact_string(out, message.protocol)
    if message.leader is None:
        out.append(0)
    else:
        write_compact_string(out, message.leader)
    out += _pack_q(message.current_state_timestamp)
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
        write_compact_string(out, m.client_id)
        write_compact_string(out, m.client_host)
        out += _pack_ii(m.rebalance_timeout, m.session_timeout)
        write_compact_bytes(out, m.subscription)
        write_compact_bytes(out, m.assignment)
        out += b"\x00"
    out += b"\x00"
