"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AbortedTxn, versions 0-0."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
)

_unpack_qqqq = Struct(">qqqq").unpack_from
_pack_qqqq = Struct(">qqqq").pack


class AbortedTxn(Message):
    """The message AbortedTxn, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
        last_offset: int = 0,
        last_stable_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AbortedTxn:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AbortedTxn ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AbortedTxn:
    producer_id, first_offset, last_offset, last_stable_offset = _unpack_qqqq(buf, pos)
    pos += 32
    message = AbortedTxn(producer_id, first_offset, last_offset, last_stable_offset)
    return message


def _encode_classic(out: bytearray, message: AbortedTxn, version: int) -> None:
    out += _pack_qqqq(message.producer_id, message.first_offset, message.last_offset, message.last_stable_offset)
