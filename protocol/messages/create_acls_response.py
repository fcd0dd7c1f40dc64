"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreateAclsResponse, key 30, versions 1-3."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_nullable_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class AclCreationResult(Message):
    """An element of `results` of CreateAclsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    """The message CreateAclsResponse, versions 1-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreateAclsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreateAclsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreateAclsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 4:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[AclCreationResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_nullable_string(buf, pos)
        r = AclCreationResult(r_error_code, r_error_message)
        results_list.append(r)
    results: Sequence[AclCreationResult] = results_list
    message = CreateAclsResponse(throttle_time_ms, results)
    return message


def _encode_classic(out: bytearray, message: CreateAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results))
    for r in message.results:
        out += _pack_h(r.error_code)
        write_nullable_string(out, r.error_message)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreateAclsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[AclCreationResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_compact_nullable_string(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = AclCreationResult(r_error_code, r_error_message)
        results_list.append(r)
    results: Sequence[AclCreationResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreateAclsResponse(throttle_time_ms, results)
    return message


def _encode_flexible(out: bytearray, message: CreateAclsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        out += _pack_h(r.error_code)
        if r.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, r.error_message)
        out += b"\x00"
    out += b"\x00"
