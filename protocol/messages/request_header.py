"""GENERATED from tools/schemas by tools/generate.py (`make generate`): RequestHeader, versions 1-2."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_nullable_string,
    skip_tags,
    write_nullable_string,
)

_unpack_hhi = Struct(">hhi").unpack_from
_pack_hhi = Struct(">hhi").pack


class RequestHeader(Message):
    """The message RequestHeader, versions 1-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("request_api_key", "request_api_version", "correlation_id", "client_id")
    __slots__ = FIELDS

    def __init__(
        self,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> RequestHeader:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("RequestHeader ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> RequestHeader:
    request_api_key, request_api_version, correlation_id = _unpack_hhi(buf, pos)
    pos += 8
    client_id, pos = read_nullable_string(buf, pos)
    message = RequestHeader(request_api_key, request_api_version, correlation_id, client_id)
    return message


def _encode_classic(out: bytearray, message: RequestHeader, version: int) -> None:
    out += _pack_hhi(message.request_api_key, message.request_api_version, message.correlation_id)
    write_nullable_string(out, message.client_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> RequestHeader:
    request_api_key, request_api_version, correlation_id = _unpack_hhi(buf, pos)
    pos += 8
    client_id, pos = read_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = RequestHeader(request_api_key, request_api_version, correlation_id, client_id)
    return message


def _encode_flexible(out: bytearray, message: RequestHeader, version: int) -> None:
    out += _pack_hhi(message.request_api_key, message.request_api_version, message.correlation_id)
    write_nullable_string(out, message.client_id)
    out += b"\x00"
