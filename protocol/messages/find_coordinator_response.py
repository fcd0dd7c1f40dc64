"""GENERATED from tools/schemas by tools/generate.py (`make generate`): FindCoordinatorResponse, key 10, versions 0-6."""

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
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class Coordinator(Message):
    """An element of `coordinators` of FindCoordinatorResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("key", "node_id", "host", "port", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    """The message FindCoordinatorResponse, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: Sequence[Coordinator] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = coordinators

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> FindCoordinatorResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("FindCoordinatorResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> FindCoordinatorResponse:
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    if version >= 1:
        error_message, pos = read_nullable_string(buf, pos)
    else:
        error_message = ""
    node_id = _unpack_i(buf, pos)[0]
    pos += 4
    host, pos = read_string(buf, pos)
    port = _unpack_i(buf, pos)[0]
    pos += 4
    message = FindCoordinatorResponse(throttle_time_ms, error_code, error_message, node_id, host, port, ())
    return message


def _encode_classic(out: bytearray, message: FindCoordinatorResponse, version: int) -> None:
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)
    out += _pack_h(message.error_code)
    if version >= 1:
        write_nullable_string(out, message.error_message)
    out += _pack_i(message.node_id)
    write_string(out, message.host)
    out += _pack_i(message.port)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> FindCoordinatorResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version <= 3:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    if version <= 3:
        error_message, pos = read_compact_nullable_string(buf, pos)
    else:
        error_message = ""
    if version <= 3:
        node_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        node_id = 0
    if version <= 3:
        host, pos = read_compact_string(buf, pos)
    else:
        host = ""
    if version <= 3:
        port = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        port = 0
    if version >= 4:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 14:
            raise DecodeError("Coordinators counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Coordinators is null", pos)
        coordinators_list: list[Coordinator] = []
        for _ in range(elements):
            c_key, pos = read_compact_string(buf, pos)
            c_node_id = _unpack_i(buf, pos)[0]
            pos += 4
            c_host, pos = read_compact_string(buf, pos)
            c_port, c_error_code = _unpack_ih(buf, pos)
            pos += 6
            c_error_message, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            c = Coordinator(c_key, c_node_id, c_host, c_port, c_error_code, c_error_message)
            coordinators_list.append(c)
        coordinators: Sequence[Coordinator] = coordinators_list
    else:
        coordinators = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = FindCoordinatorResponse(throttle_time_ms, error_code, error_message, node_id, host, port, coordinators)
    return message


def _encode_flexible(out: bytearray, message: FindCoordinatorResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version <= 3:
        out += _pack_h(message.error_code)
    if version <= 3:
        if message.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, message.error_message)
    if version <= 3:
        out += _pack_i(message.node_id)
    if version <= 3:
        write_compact_string(out, message.host)
    if version <= 3:
        out += _pack_i(message.port)
    if version >= 4:
        count = len(message.coordinators) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for c in message.coordinators:
            write_compact_string(out, c.key)
            out += _pack_i(c.node_id)
            write_compact_string(out, c.host)
            out += _pack_ih(c.port, c.error_code)
            if c.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, c.error_message)
            out += b"\x00"
    out += b"\x00"
