"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SaslAuthenticateRequest, key 36, versions 0-2."""

from __future__ import annotations

from struct import error as StructError
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_bytes,
    read_compact_bytes,
    skip_tags,
    write_bytes,
    write_compact_bytes,
)


class SaslAuthenticateRequest(Message):
    """The message SaslAuthenticateRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("auth_bytes",)
    __slots__ = FIELDS

    def __init__(
        self,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SaslAuthenticateRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SaslAuthenticateRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SaslAuthenticateRequest:
    auth_bytes, pos = read_bytes(buf, pos)
    message = SaslAuthenticateRequest(auth_bytes)
    return message


def _encode_classic(out: bytearray, message: SaslAuthenticateRequest, version: int) -> None:
    write_bytes(out, message.auth_bytes)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> SaslAuthenticateRequest:
    auth_bytes, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = SaslAuthenticateRequest(auth_bytes)
    return message


def _encode_flexible(out: bytearray, message: SaslAuthenticateRequest, version: int) -> None:
    write_compact_bytes(out, message.auth_bytes)
    out += b"\x00"
