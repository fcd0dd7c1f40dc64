"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeConfigsRequest, key 32, versions 1-4."""

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

_unpack_o = Struct(">?").unpack_from
_unpack_oo = Struct(">??").unpack_from
_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_oox = Struct(">??x").pack
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack


class DescribeConfigsResource(Message):
    """An element of `resources` of DescribeConfigsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_type", "resource_name", "configuration_keys")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: Sequence[str] | None = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(Message):
    """The message DescribeConfigsRequest, versions 1-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resources", "include_synonyms", "include_documentation")
    __slots__ = FIELDS

    def __init__(
        self,
        resources: Sequence[DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeConfigsRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeConfigsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeConfigsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 7:
        raise DecodeError("Resources counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Resources is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    resources_list: list[DescribeConfigsResource] = []
    for _ in range(elements):
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 2:
            raise DecodeError("ConfigurationKeys counts more elements than there are bytes", pos)
        if r_elements < 0:
            r_configuration_keys: Sequence[str] | None = None
        else:
            left -= r_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            r_configuration_keys_list: list[str] = []
            for _ in range(r_elements):
                r_c, pos = read_string(buf, pos)
                r_configuration_keys_list.append(r_c)
            r_configuration_keys = r_configuration_keys_list
        r = DescribeConfigsResource(r_resource_type, r_resource_name, r_configuration_keys)
        resources_list.append(r)
    resources: Sequence[DescribeConfigsResource] = resources_list
    include_synonyms = _unpack_o(buf, pos)[0]
    pos += 1
    if version >= 3:
        include_documentation = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        include_documentation = False
    message = DescribeConfigsRequest(resources, include_synonyms, include_documentation)
    return message


def _encode_classic(out: bytearray, message: DescribeConfigsRequest, version: int) -> None:
    out += _pack_i(len(message.resources))
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_string(out, r.resource_name)
        if r.configuration_keys is None:
            out += b"\xff\xff\xff\xff"
        else:
            out += _pack_i(len(r.configuration_keys))
            for r_c in r.configuration_keys:
                write_string(out, r_c)
    out += _pack_o(message.include_synonyms)
    if version >= 3:
        out += _pack_o(message.include_documentation)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeConfigsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("Resources counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Resources is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    resources_list: list[DescribeConfigsResource] = []
    for _ in range(elements):
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > end - pos:
            raise DecodeError("ConfigurationKeys counts more elements than there are bytes", pos)
        if r_elements < 0:
            r_configuration_keys: Sequence[str] | None = None
        else:
            left -= r_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            r_configuration_keys_list: list[str] = []
            for _ in range(r_elements):
                r_c, pos = read_compact_string(buf, pos)
                r_configuration_keys_list.append(r_c)
            r_configuration_keys = r_configuration_keys_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        r = DescribeConfigsResource(r_resource_type, r_resource_name, r_configuration_keys)
        resources_list.append(r)
    resources: Sequence[DescribeConfigsResource] = resources_list
    include_synonyms, include_documentation = _unpack_oo(buf, pos)
    pos += 2
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeConfigsRequest(resources, include_synonyms, include_documentation)
    return message


def _encode_flexible(out: bytearray, message: DescribeConfigsRequest, version: int) -> None:
    count = len(message.resources) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_compact_string(out, r.resource_name)
        if r.configuration_keys is None:
            out += b"\x00"
        else:
            count = len(r.configuration_keys) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for r_c in r.configuration_keys:
                write_compact_string(out, r_c)
        out += b"\x00"
    out += _pack_oox(message.include_synonyms, message.include_documentation)
