"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterConfigsResponse, key 33, versions 0-2."""

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
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class AlterConfigsResourceResponse(Message):
    """An element of `responses` of AlterConfigsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "resource_type", "resource_name")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(Message):
    """The message AlterConfigsResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "responses")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterConfigsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterConfigsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AlterConfigsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 7:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[AlterConfigsResourceResponse] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_nullable_string(buf, pos)
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_string(buf, pos)
        r = AlterConfigsResourceResponse(r_error_code, r_error_message, r_resource_type, r_resource_name)
        responses_list.append(r)
    responses: Sequence[AlterConfigsResourceResponse] = responses_list
    message = AlterConfigsResponse(throttle_time_ms, responses)
    return message


def _encode_classic(out: bytearray, message: AlterConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.responses))
    for r in message.responses:
        out += _pack_h(r.error_code)
        write_nullable_string(out, r.error_message)
        out += _pack_b(r.resource_type)
        write_string(out, r.resource_name)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterConfigsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 6:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[AlterConfigsResourceResponse] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_compact_nullable_string(buf, pos)
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_compact_string(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = AlterConfigsResourceResponse(r_error_code, r_error_message, r_resource_type, r_resource_name)
        responses_list.append(r)
    responses: Sequence[AlterConfigsResourceResponse] = responses_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterConfigsResponse(throttle_time_ms, responses)
    return message


def _encode_flexible(out: bytearray, message: AlterConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.responses) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.responses:
        out += _pack_h(r.error_code)
        if r.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, r.error_message)
        out += _pack_b(r.resource_type)
        write_compact_string(out, r.resource_name)
        out += b"\x00"
    out += b"\x00"
