"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreateAclsRequest, key 30, versions 1-3."""

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
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_bbx = Struct(">bbx").pack
_pack_i = Struct(">i").pack


class AclCreation(Message):
    """An element of `creations` of CreateAclsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Message):
    """The message CreateAclsRequest, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("creations",)
    __slots__ = FIELDS

    def __init__(
        self,
        creations: Sequence[AclCreation] = (),
    ) -> None:
        self.creations = creations

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreateAclsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreateAclsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreateAclsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 10:
        raise DecodeError("Creations counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Creations is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    creations_list: list[AclCreation] = []
    for _ in range(elements):
        c_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_resource_name, pos = read_string(buf, pos)
        c_resource_pattern_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_principal, pos = read_string(buf, pos)
        c_host, pos = read_string(buf, pos)
        c_operation, c_permission_type = _unpack_bb(buf, pos)
        pos += 2
        c = AclCreation(c_resource_type, c_resource_name, c_resource_pattern_type, c_principal, c_host, c_operation, c_permission_type)
        creations_list.append(c)
    creations: Sequence[AclCreation] = creations_list
    message = CreateAclsRequest(creations)
    return message


def _encode_classic(out: bytearray, message: CreateAclsRequest, version: int) -> None:
    out += _pack_i(len(message.creations))
    for c in message.creations:
        out += _pack_b(c.resource_type)
        write_string(out, c.resource_name)
        out += _pack_b(c.resource_pattern_type)
        write_string(out, c.principal)
        write_string(out, c.host)
        out += _pack_bb(c.operation, c.permission_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreateAclsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 8:
        raise DecodeError("Creations counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Creations is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    creations_list: list[AclCreation] = []
    for _ in range(elements):
        c_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_resource_name, pos = read_compact_string(buf, pos)
        c_resource_pattern_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_principal, pos = read_compact_string(buf, pos)
        c_host, pos = read_compact_string(buf, pos)
        c_operation, c_permission_type = _unpack_bb(buf, pos)
        pos += 2
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        c = AclCreation(c_resource_type, c_resource_name, c_resource_pattern_type, c_principal, c_host, c_operation, c_permission_type)
        creations_list.append(c)
    creations: Sequence[AclCreation] = creations_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreateAclsRequest(creations)
    return message


def _encode_flexible(out: bytearray, message: CreateAclsRequest, version: int) -> None:
    count = len(message.creations) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for c in message.creations:
        out += _pack_b(c.resource_type)
        write_compact_string(out, c.resource_name)
        out += _pack_b(c.resource_pattern_type)
        write_compact_string(out, c.principal)
        write_compact_string(out, c.host)
        out += _pack_bbx(c.operation, c.permission_type)
    out += b"\x00"
