"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SyncGroupResponse, key 14, versions 0-5."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_bytes,
    read_compact_bytes,
    read_compact_nullable_string,
    skip_tags,
    write_bytes,
    write_compact_bytes,
    write_compact_string,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class SyncGroupResponse(Message):
    """The message SyncGroupResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SyncGroupResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SyncGroupResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SyncGroupResponse:
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    assignment, pos = read_bytes(buf, pos)
    message = SyncGroupResponse(throttle_time_ms, error_code, None, None, assignment)
    return message


def _encode_classic(out: bytearray, message: SyncGroupResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_h(message.error_code)
    write_bytes(out, message.assignment)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> SyncGroupResponse:
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    if version >= 5:
        protocol_type, pos = read_compact_nullable_string(buf, pos)
    else:
        protocol_type = None
    if version >= 5:
        protocol_name, pos = read_compact_nullable_string(buf, pos)
    else:
        protocol_name = None
    assignment, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = SyncGroupResponse(throttle_time_ms, error_code, protocol_type, protocol_name, assignment)
    return message


def _encode_flexible(out: bytearray, message: SyncGroupResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if version >= 5:
        if message.protocol_type is None:
            out.append(0)
        else:
            write_compact_string(out, message.protocol_type)
    if version >= 5:
        if message.protocol_name is None:
            out.append(0)
        else:
            write_compact_string(out, message.protocol_name)
    write_compact_bytes(out, message.assignment)
    out += b"\x00"
