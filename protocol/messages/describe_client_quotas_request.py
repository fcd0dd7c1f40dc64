"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeClientQuotasRequest, key 48, versions 0-1."""

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


class ComponentData(Message):
    """An element of `components` of DescribeClientQuotasRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("entity_type", "match_type", "match")
    __slots__ = FIELDS

    def __init__(
        self,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Message):
    """The message DescribeClientQuotasRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("components", "strict")
    __slots__ = FIELDS

    def __init__(
        self,
        components: Sequence[ComponentData] = (),
        strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeClientQuotasRequest:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeClientQuotasRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeClientQuotasRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 5:
        raise DecodeError("Components counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Components is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    components_list: list[ComponentData] = []
    for _ in range(elements):
        c_entity_type, pos = read_string(buf, pos)
        c_match_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_match, pos = read_nullable_string(buf, pos)
        c = ComponentData(c_entity_type, c_match_type, c_match)
        components_list.append(c)
    components: Sequence[ComponentData] = components_list
    strict = _unpack_o(buf, pos)[0]
    pos += 1
    message = DescribeClientQuotasRequest(components, strict)
    return message


def _encode_classic(out: bytearray, message: DescribeClientQuotasRequest, version: int) -> None:
    out += _pack_i(len(message.components))
    for c in message.components:
        write_string(out, c.entity_type)
        out += _pack_b(c.match_type)
        write_nullable_string(out, c.match)
    out += _pack_o(message.strict)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeClientQuotasRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("Components counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Components is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    components_list: list[ComponentData] = []
    for _ in range(elements):
        c_entity_type, pos = read_compact_string(buf, pos)
        c_match_type = _unpack_b(buf, pos)[0]
        pos += 1
        c_match, pos = read_compact_nullable_string(buf, pos)
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        c = ComponentData(c_entity_type, c_match_type, c_match)
        components_list.append(c)
    components: Sequence[ComponentData] = components_list
    strict = _unpack_o(buf, pos)[0]
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeClientQuotasRequest(components, strict)
    return message


def _encode_flexible(out: bytearray, message: DescribeClientQuotasRequest, version: int) -> None:
    count = len(message.components) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for c in message.components:
        write_compact_string(out, c.entity_type)
        out += _pack_b(c.match_type)
        if c.match is None:
            out.append(0)
        else:
            write_compact_string(out, c.match)
        out += b"\x00"
    out += _pack_ox(message.strict)
