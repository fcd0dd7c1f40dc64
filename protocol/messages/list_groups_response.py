"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListGroupsResponse, key 16, versions 0-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class ListedGroup(Message):
    """An element of `groups` of ListGroupsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "protocol_type", "group_state", "group_type")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    """The message ListGroupsResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "groups")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Sequence[ListedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListGroupsResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListGroupsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ListGroupsResponse:
    end = len(buf)
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 4:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    groups_list: list[ListedGroup] = []
    for _ in range(elements):
        g_group_id, pos = read_string(buf, pos)
        g_protocol_type, pos = read_string(buf, pos)
        g = ListedGroup(g_group_id, g_protocol_type, "", "")
        groups_list.append(g)
    groups: Sequence[ListedGroup] = groups_list
    message = ListGroupsResponse(throttle_time_ms, error_code, groups)
    return message


def _encode_classic(out: bytearray, message: ListGroupsResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.groups))
    for g in message.groups:
        write_string(out, g.group_id)
        write_string(out, g.protocol_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListGroupsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    groups_list: list[ListedGroup] = []
    for _ in range(elements):
        g_group_id, pos = read_compact_string(buf, pos)
        g_protocol_type, pos = read_compact_string(buf, pos)
        if version >= 4:
            g_group_state, pos = read_compact_string(buf, pos)
        else:
            g_group_state = ""
        if version >= 5:
            g_group_type, pos = read_compact_string(buf, pos)
        else:
            g_group_type = ""
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        g = ListedGroup(g_group_id, g_protocol_type, g_group_state, g_group_type)
        groups_list.append(g)
    groups: Sequence[ListedGroup] = groups_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListGroupsResponse(throttle_time_ms, error_code, groups)
    return message


def _encode_flexible(out: bytearray, message: ListGroupsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    count = len(message.groups) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for g in message.groups:
        write_compact_string(out, g.group_id)
        write_compact_string(out, g.protocol_type)
        if version >= 4:
            write_compact_string(out, g.group_state)
        if version >= 5:
            write_compact_string(out, g.group_type)
        out += b"\x00"
    out += b"\x00"
