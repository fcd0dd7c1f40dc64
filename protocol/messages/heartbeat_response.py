"""GENERATED from tools/schemas by tools/generate.py (`make generate`): HeartbeatResponse, key 12, versions 0-4."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    skip_tags,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ihx = Struct(">ihx").pack


class HeartbeatResponse(Message):
    """The message HeartbeatResponse, versions 0-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> HeartbeatResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("HeartbeatResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> HeartbeatResponse:
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    message = HeartbeatResponse(throttle_time_ms, error_code)
    return message


def _encode_classic(out: bytearray, message: HeartbeatResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_h(message.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> HeartbeatResponse:
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = HeartbeatResponse(throttle_time_ms, error_code)
    return message


def _encode_flexible(out: bytearray, message: HeartbeatResponse, version: int) -> None:
    out += _pack_ihx(message.throttle_time_ms, message.error_code)
