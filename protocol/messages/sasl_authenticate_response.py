"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SaslAuthenticateResponse, key 36, versions 0-2."""

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
    read_nullable_string,
    skip_tags,
    write_bytes,
    write_compact_bytes,
    write_compact_string,
    write_nullable_string,
)

_unpack_h = Struct(">h").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_h = Struct(">h").pack
_pack_q = Struct(">q").pack
_pack_qx = Struct(">qx").pack


class SaslAuthenticateResponse(Message):
    """The message SaslAuthenticateResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SaslAuthenticateResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SaslAuthenticateResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SaslAuthenticateResponse:
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    error_message, pos = read_nullable_string(buf, pos)
    auth_bytes, pos = read_bytes(buf, pos)
    if version >= 1:
        session_lifetime_ms = _unpack_q(buf, pos)[0]
        pos += 8
    else:
        session_lifetime_ms = 0
    message = SaslAuthenticateResponse(error_code, error_message, auth_bytes, session_lifetime_ms)
    return message


def _encode_classic(out: bytearray, message: SaslAuthenticateResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    write_nullable_string(out, message.error_message)
    write_bytes(out, message.auth_bytes)
    if version >= 1:
        out += _pack_q(message.session_lifetime_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> SaslAuthenticateResponse:
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    auth_bytes, pos = read_compact_bytes(buf, pos)
    session_lifetime_ms = _unpack_q(buf, pos)[0]
    pos += 8
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = SaslAuthenticateResponse(error_code, error_message, auth_bytes, session_lifetime_ms)
    return message


def _encode_flexible(out: bytearray, message: SaslAuthenticateResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    write_compact_bytes(out, message.auth_bytes)
    out += _pack_qx(message.session_lifetime_ms)
