"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeGroupsRequest, key 15, versions 0-6."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_ox = Struct(">?x").pack
_pack_i = Struct(">i").pack


class DescribeGroupsRequest(Message):
    """The message DescribeGroupsRequest, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("groups", "include_authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeGroupsRequest:
        try:
            if version >= 5:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeGroupsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 5:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeGroupsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    groups_list: list[str] = []
    for _ in range(elements):
        g, pos = read_string(buf, pos)
        groups_list.append(g)
    groups: Sequence[str] = groups_list
    if version >= 3:
        include_authorized_operations = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        include_authorized_operations = False
    message = DescribeGroupsRequest(groups, include_authorized_operations)
    return message


def _encode_classic(out: bytearray, message: DescribeGroupsRequest, version: int) -> None:
    out += _pack_i(len(message.groups))
    for g in message.groups:
        write_string(out, g)
    if version >= 3:
        out += _pack_o(message.include_authorized_operations)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeGroupsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > end - pos:
        raise DecodeError("Groups counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Groups is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    groups_list: list[str] = []
    for _ in range(elements):
        g, pos = read_compact_string(buf, pos)
        groups_list.append(g)
    groups: Sequence[str] = groups_list
    include_authorized_operations = _unpack_o(buf, pos)[0]
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeGroupsRequest(groups, include_authorized_operations)
    return message


def _encode_flexible(out: bytearray, message: DescribeGroupsRequest, version: int) -> None:
    count = len(message.groups) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for g in message.groups:
        write_compact_string(out, g)
    out += _pack_ox(message.include_authorized_operations)
