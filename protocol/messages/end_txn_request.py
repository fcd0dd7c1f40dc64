"""GENERATED from tools/schemas by tools/generate.py (`make generate`): EndTxnRequest, key 26, versions 0-5."""

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

_unpack_qho = Struct(">qh?").unpack_from
_pack_qho = Struct(">qh?").pack
_pack_qhox = Struct(">qh?x").pack


class EndTxnRequest(Message):
    """The message EndTxnRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "producer_id", "producer_epoch", "committed")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> EndTxnRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("EndTxnRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> EndTxnRequest:
    transactional_id, pos = read_string(buf, pos)
    producer_id, producer_epoch, committed = _unpack_qho(buf, pos)
    pos += 11
    message = EndTxnRequest(transactional_id, producer_id, producer_epoch, committed)
    return message


def _encode_classic(out: bytearray, message: EndTxnRequest, version: int) -> None:
    write_string(out, message.transactional_id)
    out += _pack_qho(message.producer_id, message.producer_epoch, message.committed)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> EndTxnRequest:
    transactional_id, pos = read_compact_string(buf, pos)
    producer_id, producer_epoch, committed = _unpack_qho(buf, pos)
    pos += 11
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = EndTxnRequest(transactional_id, producer_id, producer_epoch, committed)
    return message


def _encode_flexible(out: bytearray, message: EndTxnRequest, version: int) -> None:
    write_compact_string(out, message.transactional_id)
    out += _pack_qhox(message.producer_id, message.producer_epoch, message.committed)
