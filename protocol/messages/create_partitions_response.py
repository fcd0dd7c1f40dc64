"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreatePartitionsResponse, key 37, versions 0-3."""

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
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class CreatePartitionsTopicResult(Message):
    """An element of `results` of CreatePartitionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    """The message CreatePartitionsResponse, versions 0-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[CreatePartitionsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreatePartitionsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreatePartitionsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreatePartitionsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[CreatePartitionsTopicResult] = []
    for _ in range(elements):
        r_name, pos = read_string(buf, pos)
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_nullable_string(buf, pos)
        r = CreatePartitionsTopicResult(r_name, r_error_code, r_error_message)
        results_list.append(r)
    results: Sequence[CreatePartitionsTopicResult] = results_list
    message = CreatePartitionsResponse(throttle_time_ms, results)
    return message


def _encode_classic(out: bytearray, message: CreatePartitionsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results))
    for r in message.results:
        write_string(out, r.name)
        out += _pack_h(r.error_code)
        write_nullable_string(out, r.error_message)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreatePartitionsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[CreatePartitionsTopicResult] = []
    for _ in range(elements):
        r_name, pos = read_compact_string(buf, pos)
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_compact_nullable_string(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = CreatePartitionsTopicResult(r_name, r_error_code, r_error_message)
        results_list.append(r)
    results: Sequence[CreatePartitionsTopicResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreatePartitionsResponse(throttle_time_ms, results)
    return message


def _encode_flexible(out: bytearray, message: CreatePartitionsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        write_compact_string(out, r.name)
        out += _pack_h(r.error_code)
        if r.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, r.error_message)
        out += b"\x00"
    out += b"\x00"
