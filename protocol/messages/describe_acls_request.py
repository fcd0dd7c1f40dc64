"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeAclsRequest, key 29, versions 1-3."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_nullable_string,
    skip_tags,
    write_compact_string,
    write_nullable_string,
)

_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_bbx = Struct(">bbx").pack


class DescribeAclsRequest(Message):
    """The message DescribeAclsRequest, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeAclsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeAclsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeAclsRequest:
    resource_type_filter = _unpack_b(buf, pos)[0]
    pos += 1
    resource_name_filter, pos = read_nullable_string(buf, pos)
    pattern_type_filter = _unpack_b(buf, pos)[0]
    pos += 1
    principal_filter, pos = read_nullable_string(buf, pos)
    host_filter, pos = read_nullable_string(buf, pos)
    operation, permission_type = _unpack_bb(buf, pos)
    pos += 2
    message = DescribeAclsRequest(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type)
    return message


def _encode_classic(out: bytearray, message: DescribeAclsRequest, version: int) -> None:
    out += _pack_b(message.resource_type_filter)
    write_nullable_string(out, message.resource_name_filter)
    out += _pack_b(message.pattern_type_filter)
    write_nullable_string(out, message.principal_filter)
    write_nullable_string(out, message.host_filter)
    out += _pack_bb(message.operation, message.permission_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeAclsRequest:
    resource_type_filter = _unpack_b(buf, pos)[0]
    pos += 1
    resource_name_filter, pos = read_compact_nullable_string(buf, pos)
    pattern_type_filter = _unpack_b(buf, pos)[0]
    pos += 1
    principal_filter, pos = read_compact_nullable_string(buf, pos)
    host_filter, pos = read_compact_nullable_string(buf, pos)
    operation, permission_type = _unpack_bb(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeAclsRequest(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type)
    return message


def _encode_flexible(out: bytearray, message: DescribeAclsRequest, version: int) -> None:
    out += _pack_b(message.resource_type_filter)
    if message.resource_name_filter is None:
        out.append(0)
    else:
        write_compact_string(out, message.resource_name_filter)
    out += _pack_b(message.pattern_type_filter)
    if message.principal_filter is None:
        out.append(0)
    else:
        write_compact_string(out, message.principal_filter)
    if message.host_filter is None:
        out.append(0)
    else:
        write_compact_string(out, message.host_filter)
    out += _pack_bbx(message.operation, message.permission_type)
