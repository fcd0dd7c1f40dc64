"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AddOffsetsToTxnRequest, key 25, versions 0-4."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_string,
    skip_tags,
    write_compact_string,
    write_string,
)

_unpack_qh = Struct(">qh").unpack_from
_pack_qh = Struct(">qh").pack


class AddOffsetsToTxnRequest(Message):
    """The message AddOffsetsToTxnRequest, versions 0-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AddOffsetsToTxnRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AddOffsetsToTxnRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AddOffsetsToTxnRequest:
    transactional_id, pos = read_string(buf, pos)
    producer_id, producer_epoch = _unpack_qh(buf, pos)
    pos += 10
    group_id, pos = read_string(buf, pos)
    message = AddOffsetsToTxnRequest(transactional_id, producer_id, producer_epoch, group_id)
    return message


def _encode_classic(out: bytearray, message: AddOffsetsToTxnRequest, version: int) -> None:
    write_string(out, message.transactional_id)
    out += _pack_qh(message.producer_id, message.producer_epoch)
    write_string(out, message.group_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AddOffsetsToTxnRequest:
    transactional_id, pos = read_compact_string(buf, pos)
    producer_id, producer_epoch = _unpack_qh(buf, pos)
    pos += 10
    group_id, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AddOffsetsToTxnRequest(transactional_id, producer_id, producer_epoch, group_id)
    return message


def _encode_flexible(out: bytearray, message: AddOffsetsToTxnRequest, version: int) -> None:
    write_compact_string(out, message.transactional_id)
    out += _pack_qh(message.producer_id, message.producer_epoch)
    write_compact_string(out, message.group_id)
    out += b"\x00"
