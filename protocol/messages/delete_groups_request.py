"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteGroupsRequest, key 42, versions 0-3."""

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

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class DeleteGroupsRequest(Message):
    """The message DeleteGroupsRequest, versions 0-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("groups_names",)
    __slots__ = FIELDS

    def __init__(
        self,
        groups_names: Sequence[str] = (),
    ) -> None:
        self.groups_names = groups_names

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteGroupsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteGroupsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteGroupsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("GroupsNames counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("GroupsNames is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    groups_names_list: list[str] = []
    for _ in range(elements):
        g, pos = read_string(buf, pos)
        groups_names_list.append(g)
    groups_names: Sequence[str] = groups_names_list
    message = DeleteGroupsRequest(groups_names)
    return message


def _encode_classic(out: bytearray, message: DeleteGroupsRequest, version: int) -> None:
    out += _pack_i(len(message.groups_names))
    for g in message.groups_names:
        write_string(out, g)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteGroupsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > end - pos:
        raise DecodeError("GroupsNames counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("GroupsNames is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    groups_names_list: list[str] = []
    for _ in range(elements):
        g, pos = read_compact_string(buf, pos)
        groups_names_list.append(g)
    groups_names: Sequence[str] = groups_names_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteGroupsRequest(groups_names)
    return message


def _encode_flexible(out: bytearray, message: DeleteGroupsRequest, version: int) -> None:
    count = len(message.groups_names) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for g in message.groups_names:
        write_compact_string(out, g)
    out += b"\x00"
