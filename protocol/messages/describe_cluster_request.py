"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeClusterRequest, key 60, versions 0-2."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    skip_tags,
)

_unpack_o = Struct(">?").unpack_from
_unpack_b = Struct(">b").unpack_from
_pack_o = Struct(">?").pack
_pack_b = Struct(">b").pack


class DescribeClusterRequest(Message):
    """The message DescribeClusterRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    __slots__ = FIELDS

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeClusterRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeClusterRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeClusterRequest:
    include_cluster_authorized_operations = _unpack_o(buf, pos)[0]
    pos += 1
    if version >= 1:
        endpoint_type = _unpack_b(buf, pos)[0]
        pos += 1
    else:
        endpoint_type = 1
    if version >= 2:
        include_fenced_brokers = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        include_fenced_brokers = False
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeClusterRequest(include_cluster_authorized_operations, endpoint_type, include_fenced_brokers)
    return message


def _encode_flexible(out: bytearray, message: DescribeClusterRequest, version: int) -> None:
    out += _pack_o(message.include_cluster_authorized_operations)
    if version >= 1:
        out += _pack_b(message.endpoint_type)
    if version >= 2:
        out += _pack_o(message.include_fenced_brokers)
    out += b"\x00"
