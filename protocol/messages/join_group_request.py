"""GENERATED from tools/schemas by tools/generate.py (`make generate`): JoinGroupRequest, key 11, versions 0-9."""

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
_unpack_ii = Struct(">ii").unpack_from
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack


class JoinGroupRequestProtocol(Message):
    """An element of `protocols` of JoinGroupRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "metadata")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Message):
    """The message JoinGroupRequest, versions 0-9."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequestProtocol] = (),
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> JoinGroupRequest:
        try:
            if version >= 6:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("JoinGroupRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 6:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> JoinGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_string(buf, pos)
    session_timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 1:
        rebalance_timeout_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        rebalance_timeout_ms = -1
    member_id, pos = read_string(buf, pos)
    if version >= 5:
        group_instance_id, pos = read_nullable_string(buf, pos)
    else:
        group_instance_id = None
    protocol_type, pos = read_string(buf, pos)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Protocols counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Protocols is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    protocols_list: list[JoinGroupRequestProtocol] = []
    for _ in range(elements):
        p_name, pos = read_string(buf, pos)
        p_metadata, pos = read_bytes(buf, pos)
        p = JoinGroupRequestProtocol(p_name, p_metadata)
        protocols_list.append(p)
    protocols: Sequence[JoinGroupRequestProtocol] = protocols_list
    message = JoinGroupRequest(group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols, None)
    return message


def _encode_classic(out: bytearray, message: JoinGroupRequest, version: int) -> None:
    write_string(out, message.group_id)
    out += _pack_i(message.session_timeout_ms)
    if version >= 1:
        out += _pack_i(message.rebalance_timeout_ms)
    write_string(out, message.member_id)
    if version >= 5:
        write_nullable_string(out, message.group_instance_id)
    write_string(out, message.protocol_type)
    out += _pack_i(len(message.protocols))
    for p in message.protocols:
        write_string(out, p.name)
        write_bytes(out, p.metadata)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> JoinGroupRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    group_id, pos = read_compact_string(buf, pos)
    session_timeout_ms, rebalance_timeout_ms = _unpack_ii(buf, pos)
    pos += 8
    member_id, pos = read_compact_string(buf, pos)
    group_instance_id, pos = read_compact_nullable_string(buf, pos)
    protocol_type, pos = read_compact_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Protocols counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Protocols is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    protocols_list: list[JoinGroupRequestProtocol] = []
    for _ in range(elements):
        p_name, pos = read_compact_string(buf, pos)
        p_metadata, pos = read_compact_bytes(buf, pos)
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        p = JoinGroupRequestProtocol(p_name, p_metadata)
        protocols_list.append(p)
    protocols: Sequence[JoinGroupRequestProtocol] = protocols_list
    if version >= 8:
        reason, pos = read_compact_nullable_string(buf, pos)
    else:
        reason = None
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = JoinGroupRequest(group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols, reason)
    return message


def _encode_flexible(out: bytearray, message: JoinGroupRequest, version: int) -> None:
    write_compact_string(out, message.group_id)
    out += _pack_ii(message.session_timeout_ms, message.rebalance_timeout_ms)
    write_compact_string(out, message.member_id)
    if message.group_instance_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.group_instance_id)
    write_compact_string(out, message.protocol_type)
    count = len(message.protocols) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for p in message.protocols:
        write_compact_string(out, p.name)
        write_compact_bytes(out, p.metadata)
        out += b"\x00"
    if version >= 8:
        if message.reason is None:
            out.append(0)
        else:
            write_compact_string(out, message.reason)
    out += b"\x00"
