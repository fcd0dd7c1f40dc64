"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteAclsRequest, key 31, versions 1-3."""

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
    read_nullable_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_bbx = Struct(">bbx").pack
_pack_i = Struct(">i").pack


class DeleteAclsFilter(Message):
    """An element of `filters` of DeleteAclsRequest."""

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


class DeleteAclsRequest(Message):
    """The message DeleteAclsRequest, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("filters",)
    __slots__ = FIELDS

    def __init__(
        self,
        filters: Sequence[DeleteAclsFilter] = (),
    ) -> None:
        self.filters = filters

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteAclsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteAclsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteAclsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 10:
        raise DecodeError("Filters counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Filters is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    filters_list: list[DeleteAclsFilter] = []
    for _ in range(elements):
        f_resource_type_filter = _unpack_b(buf, pos)[0]
        pos += 1
        f_resource_name_filter, pos = read_nullable_string(buf, pos)
        f_pattern_type_filter = _unpack_b(buf, pos)[0]
        pos += 1
        f_principal_filter, pos = read_nullable_string(buf, pos)
        f_host_filter, pos = read_nullable_string(buf, pos)
        f_operation, f_permission_type = _unpack_bb(buf, pos)
        pos += 2
        f = DeleteAclsFilter(f_resource_type_filter, f_resource_name_filter, f_pattern_type_filter, f_principal_filter, f_host_filter, f_operation, f_permission_type)
        filters_list.append(f)
    filters: Sequence[DeleteAclsFilter] = filters_list
    message = DeleteAclsRequest(filters)
    return message


def _encode_classic(out: bytearray, message: DeleteAclsRequest, version: int) -> None:
    out += _pack_i(len(message.filters))
    for f in message.filters:
        out += _pack_b(f.resource_type_filter)
        write_nullable_string(out, f.resource_name_filter)
        out += _pack_b(f.pattern_type_filter)
        write_nullable_string(out, f.principal_filter)
        write_nullable_string(out, f.host_filter)
        out += _pack_bb(f.operation, f.permission_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteAclsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 8:
        raise DecodeError("Filters counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Filters is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    filters_list: list[DeleteAclsFilter] = []
    for _ in range(elements):
        f_resource_type_filter = _unpack_b(buf, pos)[0]
        pos += 1
        f_resource_name_filter, pos = read_compact_nullable_string(buf, pos)
        f_pattern_type_filter = _unpack_b(buf, pos)[0]
        pos += 1
        f_principal_filter, pos = read_compact_nullable_string(buf, pos)
        f_host_filter, pos = read_compact_nullable_string(buf, pos)
        f_operation, f_permission_type = _unpack_bb(buf, pos)
        pos += 2
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        f = DeleteAclsFilter(f_resource_type_filter, f_resource_name_filter, f_pattern_type_filter, f_principal_filter, f_host_filter, f_operation, f_permission_type)
        filters_list.append(f)
    filters: Sequence[DeleteAclsFilter] = filters_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteAclsRequest(filters)
    return message


def _encode_flexible(out: bytearray, message: DeleteAclsRequest, version: int) -> None:
    count = len(message.filters) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for f in message.filters:
        out += _pack_b(f.resource_type_filter)
        if f.resource_name_filter is None:
            out.append(0)
        else:
            write_compact_string(out, f.resource_name_filter)
        out += _pack_b(f.pattern_type_filter)
        if f.principal_filter is None:
            out.append(0)
        else:
            write_compact_string(out, f.principal_filter)
        if f.host_filter is None:
            out.append(0)
        else:
            write_compact_string(out, f.host_filter)
        out += _pack_bbx(f.operation, f.permission_type)
    out += b"\x00"
