"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeAclsResponse, key 29, versions 1-3."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_bb = Struct(">bb").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_bbx = Struct(">bbx").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class AclDescription(Message):
    """An element of `acls` of DescribeAclsResource."""

    FIELDS: ClassVar[tuple[str, ...]] = ("principal", "host", "operation", "permission_type")
    __slots__ = FIELDS

    def __init__(
        self,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Message):
    """An element of `resources` of DescribeAclsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_type", "resource_name", "pattern_type", "acls")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: Sequence[AclDescription] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = acls


class DescribeAclsResponse(Message):
    """The message DescribeAclsResponse, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "resources")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: Sequence[DescribeAclsResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeAclsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeAclsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeAclsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_nullable_string(buf, pos)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("Resources counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Resources is null", pos)
    resources_list: list[DescribeAclsResource] = []
    for _ in range(elements):
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_string(buf, pos)
        r_pattern_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 6:
            raise DecodeError("Acls counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Acls is null", pos)
        r_acls_list: list[AclDescription] = []
        for _ in range(r_elements):
            r_a_principal, pos = read_string(buf, pos)
            r_a_host, pos = read_string(buf, pos)
            r_a_operation, r_a_permission_type = _unpack_bb(buf, pos)
            pos += 2
            r_a = AclDescription(r_a_principal, r_a_host, r_a_operation, r_a_permission_type)
            r_acls_list.append(r_a)
        r_acls: Sequence[AclDescription] = r_acls_list
        r = DescribeAclsResource(r_resource_type, r_resource_name, r_pattern_type, r_acls)
        resources_list.append(r)
    resources: Sequence[DescribeAclsResource] = resources_list
    message = DescribeAclsResponse(throttle_time_ms, error_code, error_message, resources)
    return message


def _encode_classic(out: bytearray, message: DescribeAclsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    write_nullable_string(out, message.error_message)
    out += _pack_i(len(message.resources))
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_string(out, r.resource_name)
        out += _pack_b(r.pattern_type)
        out += _pack_i(len(r.acls))
        for r_a in r.acls:
            write_string(out, r_a.principal)
            write_string(out, r_a.host)
            out += _pack_bb(r_a.operation, r_a.permission_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeAclsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("Resources counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Resources is null", pos)
    resources_list: list[DescribeAclsResource] = []
    for _ in range(elements):
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_compact_string(buf, pos)
        r_pattern_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 5:
            raise DecodeError("Acls counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Acls is null", pos)
        r_acls_list: list[AclDescription] = []
        for _ in range(r_elements):
            r_a_principal, pos = read_compact_string(buf, pos)
            r_a_host, pos = read_compact_string(buf, pos)
            r_a_operation, r_a_permission_type = _unpack_bb(buf, pos)
            pos += 2
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_a = AclDescription(r_a_principal, r_a_host, r_a_operation, r_a_permission_type)
            r_acls_list.append(r_a)
        r_acls: Sequence[AclDescription] = r_acls_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = DescribeAclsResource(r_resource_type, r_resource_name, r_pattern_type, r_acls)
        resources_list.append(r)
    resources: Sequence[DescribeAclsResource] = resources_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeAclsResponse(throttle_time_ms, error_code, error_message, resources)
    return message


def _encode_flexible(out: bytearray, message: DescribeAclsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    count = len(message.resources) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_compact_string(out, r.resource_name)
        out += _pack_b(r.pattern_type)
        count = len(r.acls) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_a in r.acls:
            write_compact_string(out, r_a.principal)
            write_compact_string(out, r_a.host)
            out += _pack_bbx(r_a.operation, r_a.permission_type)
        out += b"\x00"
    out += b"\x00"
