"""GENERATED from tools/schemas by tools/generate.py (`make generate`): SaslHandshakeResponse, key 17, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class SaslHandshakeResponse(Message):
    """The message SaslHandshakeResponse, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "mechanisms")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: Sequence[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> SaslHandshakeResponse:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("SaslHandshakeResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> SaslHandshakeResponse:
    end = len(buf)
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("Mechanisms counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Mechanisms is null", pos)
    mechanisms_list: list[str] = []
    for _ in range(elements):
        m, pos = read_string(buf, pos)
        mechanisms_list.append(m)
    mechanisms: Sequence[str] = mechanisms_list
    message = SaslHandshakeResponse(error_code, mechanisms)
    return message


def _encode_classic(out: bytearray, message: SaslHandshakeResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.mechanisms))
    for m in message.mechanisms:
        write_string(out, m)
