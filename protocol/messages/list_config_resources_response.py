"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListConfigResourcesResponse, key 74, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_b = Struct(">b").pack
_pack_ih = Struct(">ih").pack


class ConfigResource(Message):
    """An element of `config_resources` of ListConfigResourcesResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_name", "resource_type")
    __slots__ = FIELDS

    def __init__(
        self,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    """The message ListConfigResourcesResponse, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "config_resources")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Sequence[ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListConfigResourcesResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListConfigResourcesResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListConfigResourcesResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("ConfigResources counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ConfigResources is null", pos)
    config_resources_list: list[ConfigResource] = []
    for _ in range(elements):
        c_resource_name, pos = read_compact_string(buf, pos)
        if version >= 1:
            c_resource_type = _unpack_b(buf, pos)[0]
            pos += 1
        else:
            c_resource_type = 16
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        c = ConfigResource(c_resource_name, c_resource_type)
        config_resources_list.append(c)
    config_resources: Sequence[ConfigResource] = config_resources_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListConfigResourcesResponse(throttle_time_ms, error_code, config_resources)
    return message


def _encode_flexible(out: bytearray, message: ListConfigResourcesResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    count = len(message.config_resources) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for c in message.config_resources:
        write_compact_string(out, c.resource_name)
        if version >= 1:
            out += _pack_b(c.resource_type)
        out += b"\x00"
    out += b"\x00"
