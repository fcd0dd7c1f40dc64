"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteAclsResponse, key 31, versions 1-3."""

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
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_b = Struct(">b").pack
_pack_bb = Struct(">bb").pack
_pack_bbx = Struct(">bbx").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class DeleteAclsMatchingAcl(Message):
    """An element of `matching_acls` of DeleteAclsFilterResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    """An element of `filter_results` of DeleteAclsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "matching_acls")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: Sequence[DeleteAclsMatchingAcl] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = matching_acls


class DeleteAclsResponse(Message):
    """The message DeleteAclsResponse, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "filter_results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteAclsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteAclsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteAclsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("FilterResults counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("FilterResults is null", pos)
    filter_results_list: list[DeleteAclsFilterResult] = []
    for _ in range(elements):
        f_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        f_error_message, pos = read_nullable_string(buf, pos)
        f_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if f_elements > (end - pos) // 14:
            raise DecodeError("MatchingAcls counts more elements than there are bytes", pos)
        if f_elements < 0:
            raise DecodeError("MatchingAcls is null", pos)
        f_matching_acls_list: list[DeleteAclsMatchingAcl] = []
        for _ in range(f_elements):
            f_m_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            f_m_error_message, pos = read_nullable_string(buf, pos)
            f_m_resource_type = _unpack_b(buf, pos)[0]
            pos += 1
            f_m_resource_name, pos = read_string(buf, pos)
            f_m_pattern_type = _unpack_b(buf, pos)[0]
            pos += 1
            f_m_principal, pos = read_string(buf, pos)
            f_m_host, pos = read_string(buf, pos)
            f_m_operation, f_m_permission_type = _unpack_bb(buf, pos)
            pos += 2
            f_m = DeleteAclsMatchingAcl(f_m_error_code, f_m_error_message, f_m_resource_type, f_m_resource_name, f_m_pattern_type, f_m_principal, f_m_host, f_m_operation, f_m_permission_type)
            f_matching_acls_list.append(f_m)
        f_matching_acls: Sequence[DeleteAclsMatchingAcl] = f_matching_acls_list
        f = DeleteAclsFilterResult(f_error_code, f_error_message, f_matching_acls)
        filter_results_list.append(f)
    filter_results: Sequence[DeleteAclsFilterResult] = filter_results_list
    message = DeleteAclsResponse(throttle_time_ms, filter_results)
    return message


def _encode_classic(out: bytearray, message: DeleteAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.filter_results))
    for f in message.filter_results:
        out += _pack_h(f.error_code)
        write_nullable_string(out, f.error_message)
        out += _pack_i(len(f.matching_acls))
        for f_m in f.matching_acls:
            out += _pack_h(f_m.error_code)
            write_nullable_string(out, f_m.error_message)
            out += _pack_b(f_m.resource_type)
            write_string(out, f_m.resource_name)
            out += _pack_b(f_m.pattern_type)
            write_string(out, f_m.principal)
            write_string(out, f_m.host)
            out += _pack_bb(f_m.operation, f_m.permission_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteAclsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("FilterResults counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("FilterResults is null", pos)
    filter_results_list: list[DeleteAclsFilterResult] = []
    for _ in range(elements):
        f_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        f_error_message, pos = read_compact_nullable_string(buf, pos)
        f_elements = buf[pos]
        if f_elements > 127:
            f_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        f_elements -= 1
        if f_elements > (end - pos) // 11:
            raise DecodeError("MatchingAcls counts more elements than there are bytes", pos)
        if f_elements < 0:
            raise DecodeError("MatchingAcls is null", pos)
        f_matching_acls_list: list[DeleteAclsMatchingAcl] = []
        for _ in range(f_elements):
            f_m_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            f_m_error_message, pos = read_compact_nullable_string(buf, pos)
            f_m_resource_type = _unpack_b(buf, pos)[0]
            pos += 1
            f_m_resource_name, pos = read_compact_string(buf, pos)
            f_m_pattern_type = _unpack_b(buf, pos)[0]
            pos += 1
            f_m_principal, pos = read_compact_string(buf, pos)
            f_m_host, pos = read_compact_string(buf, pos)
            f_m_operation, f_m_permission_type = _unpack_bb(buf, pos)
            pos += 2
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            f_m = DeleteAclsMatchingAcl(f_m_error_code, f_m_error_message, f_m_resource_type, f_m_resource_name, f_m_pattern_type, f_m_principal, f_m_host, f_m_operation, f_m_permission_type)
            f_matching_acls_list.append(f_m)
        f_matching_acls: Sequence[DeleteAclsMatchingAcl] = f_matching_acls_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        f = DeleteAclsFilterResult(f_error_code, f_error_message, f_matching_acls)
        filter_results_list.append(f)
    filter_results: Sequence[DeleteAclsFilterResult] = filter_results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteAclsResponse(throttle_time_ms, filter_results)
    return message


def _encode_flexible(out: bytearray, message: DeleteAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.filter_results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for f in message.filter_results:
        out += _pack_h(f.error_code)
        if f.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, f.error_message)
        count = len(f.matching_acls) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for f_m in f.matching_acls:
            out += _pack_h(f_m.error_code)
            if f_m.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, f_m.error_message)
            out += _pack_b(f_m.resource_type)
            write_compact_string(out, f_m.resource_name)
            out += _pack_b(f_m.pattern_type)
            write_compact_string(out, f_m.principal)
            write_compact_string(out, f_m.host)
            out += _pack_bbx(f_m.operation, f_m.permission_type)
        out += b"\x00"
    out += b"\x00"
