"""GENERATED from tools/schemas by tools/generate.py (`make generate`): UpdateFeaturesResponse, key 57, versions 0-2."""

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

_unpack_h = Struct(">h").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack


class UpdatableFeatureResult(Message):
    """An element of `results` of UpdateFeaturesResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("feature", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Message):
    """The message UpdateFeaturesResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> UpdateFeaturesResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("UpdateFeaturesResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> UpdateFeaturesResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    if version <= 1:
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
        results_list: list[UpdatableFeatureResult] = []
        for _ in range(elements):
            r_feature, pos = read_compact_string(buf, pos)
            r_error_code = _unpack_h(buf, pos)[0]
            pos += 2
            r_error_message, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r = UpdatableFeatureResult(r_feature, r_error_code, r_error_message)
            results_list.append(r)
        results: Sequence[UpdatableFeatureResult] = results_list
    else:
        results = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = UpdateFeaturesResponse(throttle_time_ms, error_code, error_message, results)
    return message


def _encode_flexible(out: bytearray, message: UpdateFeaturesResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    if version <= 1:
        count = len(message.results) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r in message.results:
            write_compact_string(out, r.feature)
            out += _pack_h(r.error_code)
            if r.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, r.error_message)
            out += b"\x00"
    out += b"\x00"
