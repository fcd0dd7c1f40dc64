"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ResponseHeader, versions 0-1."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    skip_tags,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class ResponseHeader(Message):
    """The message ResponseHeader, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("correlation_id",)
    __slots__ = FIELDS

    def __init__(
        self,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ResponseHeader:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ResponseHeader ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ResponseHeader:
    correlation_id = _unpack_i(buf, pos)[0]
    pos += 4
    message = ResponseHeader(correlation_id)
    return message


def _encode_classic(out: bytearray, message: ResponseHeader, version: int) -> None:
    out += _pack_i(message.correlation_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ResponseHeader:
    correlation_id = _unpack_i(buf, pos)[0]
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ResponseHeader(correlation_id)
    return message


def _encode_flexible(out: bytearray, message: ResponseHeader, version: int) -> None:
    out += _pack_ix(message.correlation_id)
