"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ApiVersionsRequest, key 18, versions 0-5."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    write_compact_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class ApiVersionsRequest(Message):
    """The message ApiVersionsRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("client_software_name", "client_software_version", "cluster_id", "node_id")
    __slots__ = FIELDS

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ApiVersionsRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ApiVersionsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ApiVersionsRequest:
    message = ApiVersionsRequest("", "", None, -1)
    return message


def _encode_classic(out: bytearray, message: ApiVersionsRequest, version: int) -> None:
    pass


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ApiVersionsRequest:
    client_software_name, pos = read_compact_string(buf, pos)
    client_software_version, pos = read_compact_string(buf, pos)
    if version >= 5:
        cluster_id, pos = read_compact_nullable_string(buf, pos)
    else:
        cluster_id = None
    if version >= 5:
        node_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        node_id = -1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ApiVersionsRequest(client_software_name, client_software_version, cluster_id, node_id)
    return message


def _encode_flexible(out: bytearray, message: ApiVersionsRequest, version: int) -> None:
    write_compact_string(out, message.client_software_name)
    write_compact_string(out, message.client_software_version)
    if version >= 5:
        if message.cluster_id is None:
            out.append(0)
        else:
            write_compact_string(out, message.cluster_id)
    if version >= 5:
        out += _pack_i(message.node_id)
    out += b"\x00"
