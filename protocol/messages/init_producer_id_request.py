"""GENERATED from tools/schemas by tools/generate.py (`make generate`): InitProducerIdRequest, key 22, versions 0-6."""

from __future__ import annotations

from struct import error as StructError, Struct

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_nullable_string,
    skip_tags,
    write_compact_string,
    write_nullable_string,
)

_unpack_oo = Struct(">??").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_pack_oo = Struct(">??").pack
_pack_i = Struct(">i").pack
_pack_qh = Struct(">qh").pack


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable_2pc", "keep_prepared_txn")

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable_2pc = enable_2pc
        self.keep_prepared_txn = keep_prepared_txn

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> InitProducerIdRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("InitProducerIdRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> InitProducerIdRequest:
    transactional_id, pos = read_nullable_string(buf, pos)
    transaction_timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = InitProducerIdRequest(transactional_id, transaction_timeout_ms, -1, -1, False, False)
    return message


def _encode_classic(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    write_nullable_string(out, message.transactional_id)
    out += _pack_i(message.transaction_timeout_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> InitProducerIdRequest:
    transactional_id, pos = read_compact_nullable_string(buf, pos)
    transaction_timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 3:
        producer_id, producer_epoch = _unpack_qh(buf, pos)
        pos += 10
    else:
        producer_id = -1
        producer_epoch = -1
    if version >= 6:
        enable_2pc, keep_prepared_txn = _unpack_oo(buf, pos)
        pos += 2
    else:
        enable_2pc = False
        keep_prepared_txn = False
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = InitProducerIdRequest(transactional_id, transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn)
    return message


def _encode_flexible(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    if message.transactional_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.transactional_id)
    out += _pack_i(message.transaction_timeout_ms)
    if version >= 3:
        out += _pack_qh(message.producer_id, message.producer_epoch)
    if version >= 6:
        out += _pack_oo(message.enable_2pc, message.keep_prepared_txn)
    out += b"\x00"
