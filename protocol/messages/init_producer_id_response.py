"""GENERATED from tools/schemas by tools/generate.py (`make generate`): InitProducerIdResponse, key 22, versions 0-6."""

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

_unpack_ihqh = Struct(">ihqh").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_pack_ihqh = Struct(">ihqh").pack
_pack_qh = Struct(">qh").pack


class InitProducerIdResponse(Message):
    """The message InitProducerIdResponse, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch", "fence_reason")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
        fence_reason: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
        self.fence_reason = fence_reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> InitProducerIdResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("InitProducerIdResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> InitProducerIdResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch = _unpack_ihqh(buf, pos)
    pos += 16
    message = InitProducerIdResponse(throttle_time_ms, error_code, producer_id, producer_epoch, -1, -1, None)
    return message


def _encode_classic(out: bytearray, message: InitProducerIdResponse, version: int) -> None:
    out += _pack_ihqh(message.throttle_time_ms, message.error_code, message.producer_id, message.producer_epoch)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> InitProducerIdResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch = _unpack_ihqh(buf, pos)
    pos += 16
    if version >= 6:
        ongoing_txn_producer_id, ongoing_txn_producer_epoch = _unpack_qh(buf, pos)
        pos += 10
    else:
        ongoing_txn_producer_id = -1
        ongoing_txn_producer_epoch = -1
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
    message = InitProducerIdResponse(throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch, fence_reason)
    return message


def _encode_flexible(out: bytearray, message: InitProducerIdResponse, version: int) -> None:
    out += _pack_ihqh(message.throttle_time_ms, message.error_code, message.producer_id, message.producer_epoch)
    if version >= 6:
        out += _pack_qh(message.ongoing_txn_producer_id, message.ongoing_txn_producer_epoch)
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
