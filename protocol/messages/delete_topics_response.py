"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteTopicsResponse, key 20, versions 1-6."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_u = Struct(">16s").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class DeletableTopicResult(Message):
    """An element of `responses` of DeleteTopicsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    """The message DeleteTopicsResponse, versions 1-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "responses")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteTopicsResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteTopicsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteTopicsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 4:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[DeletableTopicResult] = []
    for _ in range(elements):
        r_name, pos = read_string(buf, pos)
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r = DeletableTopicResult(r_name, ZERO_UUID, r_error_code, None)
        responses_list.append(r)
    responses: Sequence[DeletableTopicResult] = responses_list
    message = DeleteTopicsResponse(throttle_time_ms, responses)
    return message


def _encode_classic(out: bytearray, message: DeleteTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.responses))
    for r in message.responses:
        if r.name is None:
            raise ValueError(f"Name cannot be null in version {version}")
        write_string(out, r.name)
        out += _pack_h(r.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteTopicsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[DeletableTopicResult] = []
    for _ in range(elements):
        r_name, pos = read_compact_nullable_string(buf, pos)
        if r_name is None and version < 6:
            raise DecodeError("Name is null", pos)
        if version >= 6:
            r_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            r_topic_id = ZERO_UUID
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        if version >= 5:
            r_error_message, pos = read_compact_nullable_string(buf, pos)
        else:
            r_error_message = None
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = DeletableTopicResult(r_name, r_topic_id, r_error_code, r_error_message)
        responses_list.append(r)
    responses: Sequence[DeletableTopicResult] = responses_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteTopicsResponse(throttle_time_ms, responses)
    return message


def _encode_flexible(out: bytearray, message: DeleteTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.responses) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.responses:
        if r.name is None and version < 6:
            raise ValueError(f"Name cannot be null in version {version}")
        if r.name is None:
            out.append(0)
        else:
            write_compact_string(out, r.name)
        if version >= 6:
            out += _pack_u(r.topic_id)
        out += _pack_h(r.error_code)
        if version >= 5:
            if r.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, r.error_message)
        out += b"\x00"
    out += b"\x00"
