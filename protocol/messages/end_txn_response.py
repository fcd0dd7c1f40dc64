"""GENERATED from tools/schemas by tools/generate.py (`make generate`): EndTxnResponse, key 26, versions 0-5."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_tags,
    write_compact_string,
    write_tags,
)

_unpack_ih = Struct(">ih").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_pack_ih = Struct(">ih").pack
_pack_qh = Struct(">qh").pack


class EndTxnResponse(Message):
    """The message EndTxnResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "fence_reason")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        fence_reason: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.fence_reason = fence_reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> EndTxnResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("EndTxnResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> EndTxnResponse:
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    message = EndTxnResponse(throttle_time_ms, error_code, -1, -1, None)
    return message


def _encode_classic(out: bytearray, message: EndTxnResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> EndTxnResponse:
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    if version >= 5:
        producer_id, producer_epoch = _unpack_qh(buf, pos)
        pos += 10
    else:
        producer_id = -1
        producer_epoch = -1
    fence_reason: str | None = None
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 9000 in tags:
            pos, stop = tags[9000]
            fence_reason, pos = read_compact_nullable_string(buf, pos)
            if pos != stop:
                raise DecodeError("tagged field FenceReason is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = EndTxnResponse(throttle_time_ms, error_code, producer_id, producer_epoch, fence_reason)
    return message


def _encode_flexible(out: bytearray, message: EndTxnResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if version >= 5:
        out += _pack_qh(message.producer_id, message.producer_epoch)
    if message.fence_reason is not None:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.fence_reason is not None:
            out = bytearray()
            if message.fence_reason is None:
                out.append(0)
            else:
                write_compact_string(out, message.fence_reason)
            tags.append((9000, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
