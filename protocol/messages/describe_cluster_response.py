"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeClusterResponse, key 60, versions 0-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_o = Struct(">?").pack
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_ix = Struct(">ix").pack


class DescribeClusterBroker(Message):
    """An element of `brokers` of DescribeClusterResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("broker_id", "host", "port", "rack", "is_fenced")
    __slots__ = FIELDS

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(Message):
    """The message DescribeClusterResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers", "cluster_authorized_operations")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeClusterResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeClusterResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeClusterResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if version >= 1:
        endpoint_type = _unpack_b(buf, pos)[0]
        pos += 1
    else:
        endpoint_type = 1
    cluster_id, pos = read_compact_string(buf, pos)
    controller_id = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 11:
        raise DecodeError("Brokers counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Brokers is null", pos)
    brokers_list: list[DescribeClusterBroker] = []
    for _ in range(elements):
        b_broker_id = _unpack_i(buf, pos)[0]
        pos += 4
        b_host, pos = read_compact_string(buf, pos)
        b_port = _unpack_i(buf, pos)[0]
        pos += 4
        b_rack, pos = read_compact_nullable_string(buf, pos)
        if version >= 2:
            b_is_fenced = _unpack_o(buf, pos)[0]
            pos += 1
        else:
            b_is_fenced = False
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        b = DescribeClusterBroker(b_broker_id, b_host, b_port, b_rack, b_is_fenced)
        brokers_list.append(b)
    brokers: Sequence[DescribeClusterBroker] = brokers_list
    cluster_authorized_operations = _unpack_i(buf, pos)[0]
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeClusterResponse(throttle_time_ms, error_code, error_message, endpoint_type, cluster_id, controller_id, brokers, cluster_authorized_operations)
    return message


def _encode_flexible(out: bytearray, message: DescribeClusterResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    if version >= 1:
        out += _pack_b(message.endpoint_type)
    write_compact_string(out, message.cluster_id)
    out += _pack_i(message.controller_id)
    count = len(message.brokers) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for b in message.brokers:
        out += _pack_i(b.broker_id)
        write_compact_string(out, b.host)
        out += _pack_i(b.port)
        if b.rack is None:
            out.append(0)
        else:
            write_compact_string(out, b.rack)
        if version >= 2:
            out += _pack_o(b.is_fenced)
        out += b"\x00"
    out += _pack_ix(message.cluster_authorized_operations)
