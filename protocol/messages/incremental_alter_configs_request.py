"""GENERATED from tools/schemas by tools/generate.py (`make generate`): IncrementalAlterConfigsRequest, key 44, versions 0-1."""

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
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_ox = Struct(">?x").pack
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack


class AlterableConfig(Message):
    """An element of `configs` of AlterConfigsResource."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "config_operation", "value")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Message):
    """An element of `resources` of IncrementalAlterConfigsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_type", "resource_name", "configs")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[AlterableConfig] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class IncrementalAlterConfigsRequest(Message):
    """The message IncrementalAlterConfigsRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resources", "validate_only")
    __slots__ = FIELDS

    def __init__(
        self,
        resources: Sequence[AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> IncrementalAlterConfigsRequest:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("IncrementalAlterConfigsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> IncrementalAlterConfigsRequest:
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
    resources_list: list[AlterConfigsResource] = []
    for _ in range(elements):
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 5:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Configs is null", pos)
        left -= r_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        r_configs_list: list[AlterableConfig] = []
        for _ in range(r_elements):
            r_c_name, pos = read_string(buf, pos)
            r_c_config_operation = _unpack_b(buf, pos)[0]
            pos += 1
            r_c_value, pos = read_nullable_string(buf, pos)
            r_c = AlterableConfig(r_c_name, r_c_config_operation, r_c_value)
            r_configs_list.append(r_c)
        r_configs: Sequence[AlterableConfig] = r_configs_list
        r = AlterConfigsResource(r_resource_type, r_resource_name, r_configs)
        resources_list.append(r)
    resources: Sequence[AlterConfigsResource] = resources_list
    validate_only = _unpack_o(buf, pos)[0]
    pos += 1
    message = IncrementalAlterConfigsRequest(resources, validate_only)
    return message


def _encode_classic(out: bytearray, message: IncrementalAlterConfigsRequest, version: int) -> None:
    out += _pack_i(len(message.resources))
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_string(out, r.resource_name)
        out += _pack_i(len(r.configs))
        for r_c in r.configs:
            write_string(out, r_c.name)
            out += _pack_b(r_c.config_operation)
            write_nullable_string(out, r_c.value)
    out += _pack_o(message.validate_only)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> IncrementalAlterConfigsRequest:
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
    resources_list: list[AlterConfigsResource] = []
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
        if r_elements > (end - pos) // 4:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Configs is null", pos)
        left -= r_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        r_configs_list: list[AlterableConfig] = []
        for _ in range(r_elements):
            r_c_name, pos = read_compact_string(buf, pos)
            r_c_config_operation = _unpack_b(buf, pos)[0]
            pos += 1
            r_c_value, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            r_c = AlterableConfig(r_c_name, r_c_config_operation, r_c_value)
            r_configs_list.append(r_c)
        r_configs: Sequence[AlterableConfig] = r_configs_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        r = AlterConfigsResource(r_resource_type, r_resource_name, r_configs)
        resources_list.append(r)
    resources: Sequence[AlterConfigsResource] = resources_list
    validate_only = _unpack_o(buf, pos)[0]
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = IncrementalAlterConfigsRequest(resources, validate_only)
    return message


def _encode_flexible(out: bytearray, message: IncrementalAlterConfigsRequest, version: int) -> None:
    count = len(message.resources) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.resources:
        out += _pack_b(r.resource_type)
        write_compact_string(out, r.resource_name)
        count = len(r.configs) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_c in r.configs:
            write_compact_string(out, r_c.name)
            out += _pack_b(r_c.config_operation)
            if r_c.value is None:
                out.append(0)
            else:
                write_compact_string(out, r_c.value)
            out += b"\x00"
        out += b"\x00"
    out += _pack_ox(message.validate_only)
