"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SaslHandshakeRequest, key 17, versions 0-1."""

from __future__ import annotations

from struct import error as StructError
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)


class SaslHandshakeRequest(Message):
    """The message SaslHandshakeRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("mechanism",)
    __slots__ = FIELDS

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SaslHandshakeRequest:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SaslHandshakeRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SaslHandshakeRequest:
    mechanism, pos = read_string(buf, pos)
    message = SaslHandshakeRequest(mechanism)
    return message


def _encode_classic(out: bytearray, message: SaslHandshakeRequest, version: int) -> None:
    write_string(out, message.mechanism)
